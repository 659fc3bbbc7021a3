"""Identity: names, the CA, certificates, a peer's own keys, and the proof of who answers."""
