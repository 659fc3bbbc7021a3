"""A local page over run folders and live peers."""
