"""The stacked simulator: many clients x many worlds in one tensor.

stack       worlds that fit together, laid end to end on one axis of clients
feed        every client's mini-batches, probes and test samples
execution   how local steps are carried out: stacked, or one client at a time
exchange    many stars' meetings as one batched operation
evaluation  every client's accuracy
trial       what cannot be batched, found before the start
checkpoint  all that a run carries, in one safetensors file
simulator   the loop over iterations
"""
