"""Plugins: distances between two models' outputs, one file each (see `coterie.core.registry`)."""
