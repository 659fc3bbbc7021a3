"""Learning side of a peer: one client on its own clock, and whom it exchanges models with."""
