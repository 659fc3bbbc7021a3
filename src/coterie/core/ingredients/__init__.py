"""What several algorithms are made of, one file each."""
