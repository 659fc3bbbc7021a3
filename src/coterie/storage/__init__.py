"""Files on disk: written whole or not at all, locked, checked on reading."""
