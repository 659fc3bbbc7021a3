"""Data sets that come as files: a catalogue of them, and fetching over lines that break."""
