"""Where the crash tests put their thousands of small directories."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def ram_path(tmp_path):
    """A directory in memory where the machine has one, since these tests never need the disk itself."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="logstore-crash-", dir=_MEMORY))
    yield path
    shutil.rmtree(path, ignore_errors=True)
