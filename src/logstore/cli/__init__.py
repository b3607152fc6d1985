"""Command line `logstore`, with one module for each noun.

Modules here are thin: they turn arguments into calls of the library, and results into lines. They need `click`
(extra ``[cli]``); no other package imports them.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command; its entry point."""
    try:
        from logstore.cli.main import cli
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("logstore: the command line needs click: pip install 'logstore[cli]'")
    cli.main()
