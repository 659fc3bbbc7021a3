"""Benchmarks of speed, size and endurance: every such figure in the documentation, measured again."""
