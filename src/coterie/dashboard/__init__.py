"""A local page over run folders and live peers.

    source.py       what the page can show: the seam between pages and where their numbers come from
    shelf.py        the run folders under one folder, as sources
    opened.py       a run folder opened for the page
    reading.py      large files read for a moment at a time
    run_source.py   one run folder as a source; its views are the next five files
    overview.py     status, curves, result table
    parameters.py   which parameters are not what they are by default
    network.py      who listens to whom, at any iteration
    person.py       one client, and why it listens to whom it listens to
    clients.py      all clients of a world
    watched.py      one live peer, looked at again and again
    swarm_source.py a live swarm as a source: its members, weights, exchanges and refusals
    swarm_shelf.py  a live swarm, and beside it the runs of a folder
    layout.py       places for the clients of a graph
    app.py          the page and its numbers over HTTP: read-only, nothing from elsewhere
    server.py       a port to serve it at
    report.py       the same page, frozen into one file
    bundle.py       the page's modules as one script
    figures.py      its figures for a paper: PNG, SVG, PDF
    static/         the page: plain ES modules, one for each view

What a page needs is computed here and sent as small as it is drawn: a graph of 1,000 clients goes out as
the cells of a picture, not as a million weights. What takes long to read is read for a moment at a
time (`reading`): the page draws what is known so far, says how much that is, and asks again.
"""
