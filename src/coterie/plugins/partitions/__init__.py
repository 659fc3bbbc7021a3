"""Plugins: ways to deal samples to clients, one file each (see `coterie.core.registry`)."""
