"""How people see a peer: log lines, the status page, and failed TLS handshakes."""
