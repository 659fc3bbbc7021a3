"""How models and gossip move: protocols, wire format, gRPC with mutual TLS, an in-memory double, limits."""
