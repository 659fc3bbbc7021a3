"""Official data files: fetched over lines that break, verified, and put in place whole."""
