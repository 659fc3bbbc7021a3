"""Plugins: radio channels, one file each (see `coterie.core.registry`)."""
