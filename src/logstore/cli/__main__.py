"""Command line without its entry point: ``python -m logstore.cli``."""

from logstore.cli import main

if __name__ == "__main__":
    main()
