"""A local page over run folders, leaderboards and live peers.

    app.py           the page and its numbers over HTTP: read-only, nothing from elsewhere
    sources.py       what the page can show: run folders, leaderboards, and a live swarm
    open_run.py      a run folder opened for the page
    incremental.py   large files read for a moment at a time
    views/           what the page shows of a run: overview, graph, one client, all clients; of a leaderboard
    parameters.py    which parameters of a run differ from the defaults
    live.py          a live swarm as a source: its members, weights, exchanges and refusals
    peer_monitor.py  one live peer, asked again and again
    export.py        the same page, frozen into one file
    static/          the page: plain ES modules, one for each view

What a page needs is computed here and sent as small as it is drawn: a graph of 1,000 clients goes out as
the cells of a picture, not as a million weights. What takes long to read is read for a moment at a
time (`incremental`): the page draws what is known so far, says how much that is, and asks again.
"""
