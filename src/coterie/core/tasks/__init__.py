"""Tasks: their kinds, targets, outputs and metrics."""
