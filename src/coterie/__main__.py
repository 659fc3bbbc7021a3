"""`python -m coterie`: the command line, where its script is not on the path."""

from coterie.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
