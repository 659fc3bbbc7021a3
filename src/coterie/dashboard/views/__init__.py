"""What the page shows of a run folder, one function for each view.

A view takes an `OpenRun` and the query of the page, and gives plain data, as small as it is drawn.
"""
