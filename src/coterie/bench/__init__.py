"""Speed, measured: the machine's limit, a plain loop, ours, side by side."""
