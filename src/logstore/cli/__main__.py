"""``python -m logstore.cli``: the command line without its entry point."""

from logstore.cli import main

if __name__ == "__main__":
    main()
