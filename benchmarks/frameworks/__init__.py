"""Other frameworks with the same work, a file `with_NAME.py` each: `python -m benchmarks.frameworks.run`."""
