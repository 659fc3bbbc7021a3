"""Who the other members are: signed records spread by gossip, or a fixed list."""
