"""Benchmarks: every figure on speed, size and endurance in the documentation, measured again; see README.md."""
