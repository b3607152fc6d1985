"""Files of segments, as a reader in another process may have them open or mapped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.log.logs import NOW_MS, open_log

INDEXES = ("00000000000000000000.index", "00000000000000000000.timeindex")


@pytest.mark.row("S3", part="beside a writer")
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_file_is_never_shortened(tmp_path: Path, name: str) -> None:
    """A reader that has not seen a truncation yet takes the active segment for a sealed one, and maps its index.

    The next truncation shortened the file, and the reader died of a bus error.
    """
    with open_log(tmp_path, index_interval_bytes=1) as log:
        for n in range(40):
            log.append([b"value"], timestamp=NOW_MS + n)
        path = Path(log.path) / name
    with open_log(tmp_path, index_interval_bytes=1) as log, path.open("rb") as mapped:
        size = os.fstat(mapped.fileno()).st_size
        assert size > 0
        log.replica.truncate_to(20)
        assert os.fstat(mapped.fileno()).st_size >= size
        assert path.stat().st_size < size
        for _ in range(3):
            log.append([b"value"])
    with open_log(tmp_path) as log:
        assert [record.offset for record in log] == list(range(23))
