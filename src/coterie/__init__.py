"""coterie."""
