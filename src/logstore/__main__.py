"""``python -m logstore``: the command line."""

from logstore.cli import main

if __name__ == "__main__":
    main()
