"""Planted bugs: each test names the promise that its bug breaks, by the promise's message.

A bug that breaks another promise first is not found: the check that was written for it may be gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from logstore.errors import LogstoreError


def must_break(broken: str, search: Callable[[], object]) -> str:
    """Run a search that has to break a promise; return the message of the promise that broke.

    ``broken`` is a regular expression for it.
    """
    try:
        search()
    except (AssertionError, LogstoreError) as error:
        found = f"{type(error).__name__}: {error}"
    else:
        pytest.fail("the planted bug was not found")
    assert re.search(broken, found), f"expected a promise that reads {broken!r}, broken is: {found}"
    return found
