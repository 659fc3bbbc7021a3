"""Task kinds: what is learned, with which loss, and how well it is."""
