"""Other frameworks with the same work: `python -m benchmarks.frameworks.run`, a file `with_NAME.py` for each."""
