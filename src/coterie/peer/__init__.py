"""One real client: identity, membership, wire format, service, loop.

who         ids, authority, certificates, identity, records, proof
with whom   membership, gossip, roster, company, choice, underway (models on their way)
what        schema, wire (wire.proto), transport (memory, grpc_*)
bounds      limits, breaker, guard, connections
learning    learner (one client, bare), worker (the thread it lives in), node (the loop around it)
keeping     journal, store
running     settings, service, log, metrics, watch
"""
