"""The user's own: the folder of the settings, objects in the place of names, data."""
