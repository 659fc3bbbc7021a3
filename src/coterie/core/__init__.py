"""Types, task, streams, registry, errors: pure, no I/O."""
