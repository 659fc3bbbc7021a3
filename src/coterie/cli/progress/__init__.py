"""Progress of a sweep and of a swarm: live in a terminal, plain lines elsewhere; `coterie.progress` has
that of a run.
"""
