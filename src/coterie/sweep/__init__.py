"""A grid of experiments, cut into batched jobs, here or on a Ray cluster."""
