"""Pictures of a run: for the screen (`pictures`) and for a paper (`paper`), from one set of drawings.

looks.py     colour, dashes and shade of each method, as the page has them too (without matplotlib)
style.py     the two styles, what all drawings share, figures as bytes
curves.py    the metric over time            gain.py    each client against itself alone
graph.py     who listens to whom             labels.py  what each client has
cost.py      the metric against bytes        names.py   names beside points, none over another
ranks.py     mean ranks of methods over several columns
"""
