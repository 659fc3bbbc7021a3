"""Views of a run folder, as the page shows them, one function for each.

A view takes an `OpenRun` and the query of the page, and gives plain data, as small as it is drawn. Those of a
leaderboard (`board`) take its file.
"""
