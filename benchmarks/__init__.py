"""Benchmarks: every number on speed, size and endurance that the documentation gives, to be measured again.

cli             `coterie bench engine | exchange | scaling | methods`
simulator/      what these measure: the engine against the machine's limit and a plain loop over clients
frameworks/     the same work in other frameworks, each in an environment of its own
peers/          real peers: speed beside exchanges, transport, abuse, an hour under the nemesis
poisoning       tables and picture of docs/poisoning.md
tune_published  the values that docs/reproduction.md rests on
common          the parser of a script, tables in Markdown
"""
