"""Plugins: methods, one file each (see `coterie.core.registry`)."""
