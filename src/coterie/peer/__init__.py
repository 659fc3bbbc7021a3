"""One real client: identity, membership, wire format, service, loop."""
