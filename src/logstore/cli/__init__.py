"""The command line: `logstore`, with one module for each noun.

Modules here are thin: they turn words into calls of the floors below and what comes back into lines. They
need `click` (extra ``[cli]``); nobody imports them.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The entry point of the command."""
    try:
        from logstore.cli.main import cli
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("logstore: the command line needs click: pip install 'logstore[cli]'")
    cli.main()
