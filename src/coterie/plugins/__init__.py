"""Plugins: one folder for each kind, one file for each plugin (see `coterie.core.registry`)."""
