"""Models as pure functions: made, batched or taken one by one, optimised, kept for use."""
