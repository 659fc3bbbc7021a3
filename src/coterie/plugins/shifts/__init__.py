"""Plugins: ways in which groups of clients differ, one file each (see `coterie.core.registry`)."""
