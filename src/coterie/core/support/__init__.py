"""Small things that no part of the mathematics needs: text, tables, addresses, signals."""
