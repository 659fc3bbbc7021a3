"""Transport of models and gossip: protocols, wire format, gRPC with mutual TLS, an in-memory double, limits."""
