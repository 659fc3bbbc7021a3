"""Ingredients of algorithms: what several of them are made of, one file each."""
