"""Plugins: models, one file each (see `coterie.core.registry`)."""
