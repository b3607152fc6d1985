"""What a power cut leaves behind the synced end is cut off, whatever bytes it is made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logstore.log import Log

pytestmark = [pytest.mark.row("D1"), pytest.mark.row("S20", part="recovery, step by step"), pytest.mark.crash]

TAILS = {
    "zeros, as of a file that grew before its pages came": bytes(4_096),
    "half a header of zeros": bytes(30),
    "one zero": b"\0",
    "ones": b"\xff" * 200,
    "an old message format": bytes(16) + b"\1" + bytes(100),
}


@pytest.mark.parametrize("tail", TAILS)
def test_a_log_opens_whatever_stands_behind_its_synced_end(tmp_path: Path, tail: str) -> None:
    """A tail without the magic byte of a batch was taken for another format, and the log did not open."""
    crashed = tmp_path / "crashed"
    with Log.open(tmp_path / "whole" / "t-0") as log:
        log.append([b"a", b"b", b"c"], ack="synced")
        shutil.copytree(tmp_path / "whole", crashed)
    (path,) = (crashed / "t-0").glob("*.log")
    whole = path.read_bytes()
    path.write_bytes(whole + TAILS[tail])
    with Log.open(crashed / "t-0") as log:
        assert log.log_end_offset == 3
        assert log.read(0).values() == [b"a", b"b", b"c"]
        assert log.append([b"d"], ack="synced").first_offset == 3
        assert log.read(0).values() == [b"a", b"b", b"c", b"d"]
