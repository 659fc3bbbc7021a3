"""Benchmarks of real peers, each of which has one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is loaded
