"""Plugins: attacks, one file each (see `coterie.core.registry`)."""
