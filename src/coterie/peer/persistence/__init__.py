"""State that survives a kill: the journal of everything a peer did, and its last model."""
