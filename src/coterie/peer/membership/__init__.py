"""Membership: signed records spread by gossip, or a fixed list."""
