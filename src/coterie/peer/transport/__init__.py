"""Transport of models and gossip: protocols, wire format, gRPC with mutual TLS, in-memory double, limits."""
