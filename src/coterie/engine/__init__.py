"""The stacked simulator: many clients x many worlds in one tensor.

stack       worlds that fit together, laid end to end on one axis of clients
feed        every client's mini-batches, probes and test samples
execution   how local steps are carried out: by analytic gradients or by vmap
analytic/   the chain rule written out for layers that are known
crew        blocks of clients side by side, one thread each
pace        how large every client's local steps are
meetings    who meets whom in every world
exchange    many stars' meetings as one batched operation
evaluation  every client's accuracy
memory      whether there is room, and in how many parts
trial       what cannot be batched, found before the start
checkpoint  all that a run carries, in one safetensors file
simulator   the loop over iterations
"""
