"""One real client: it learns on its own clock, and exchanges models with others over mutual TLS.

config         PEER.toml
app            the process, from PEER.toml to the last word
node           the loop: wakes, mixes, broadcasts, answers
learning       one client, bare; the thread it lives in; partners, contacts, models on their way
identity       names, CA, certificates, whom to believe, proof of who answers
membership     who the others are: gossip as a state machine, its loop, signed records
transport      protocols, wire format (wire.proto), gRPC, limits, guard
persistence    journal, checkpoint, lives
observability  log lines, status page and its client, failed handshakes
errors         what a peer raises on purpose, and the reasons of a refusal
"""
