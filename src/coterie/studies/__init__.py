"""Many experiments at once: a grid (`sweep`), settings to choose from (`tuning`), the paper (`reproduce`)."""
