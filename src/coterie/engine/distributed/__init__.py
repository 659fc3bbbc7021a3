"""One run on several devices: a process for each, with a share of every world's clients.

`launch` starts them here, `joined` is what each of them finds out about the others, `wire` is how they talk.
Of all this an algorithm, and the rest of the engine, sees `coterie.engine.ranks` and `exchanges.post` only.
"""
