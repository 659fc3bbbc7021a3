"""Plugins: data sets, one file each (see `coterie.core.registry`)."""
