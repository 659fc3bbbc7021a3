"""Real peers on one machine, in one command."""
