"""The contract of what can be plugged in, randomness, errors; tasks, models, ingredients of algorithms."""
