"""Plugins: graphs of who can reach whom, one file each (see `coterie.core.registry`)."""
