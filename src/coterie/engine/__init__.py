"""The stacked simulator: many clients x many worlds in one tensor.

plan           data, models and stacks of an experiment, ready to go
layout         worlds laid end to end on one axis of clients, and the numbers that a client has
batches        mini-batches, probes and test samples of every client
memory_budget  what fits, and in how many parts
dry_run        what cannot be run, found before the start
runner         stacks one after the other, with checkpoints
simulator      one stack from event to event: local steps, exchanges, evaluations
execution      ways to carry out local steps: by analytic gradients, by vmap, or one client at a time
analytic/      the chain rule written out for layers that are known
exchange       who meets whom, and many stars' meetings as one batched operation
evaluation     metrics of every client
checkpoint     all that a run carries, in one safetensors file
final_models   the models of all clients at the end, for use
sinks          protocols for results and progress
"""
