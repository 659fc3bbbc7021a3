"""Views of a peer for people: log lines, the status page, and failed TLS handshakes."""
