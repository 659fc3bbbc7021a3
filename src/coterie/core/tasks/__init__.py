"""What is learned and how it is measured: tasks, their kinds, targets, outputs and metrics."""
