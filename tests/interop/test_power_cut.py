"""Power cuts on a real file system: the outside check of what the simulated disk says.

A log is written on ext4 or XFS in an image, and the image is stored on an XFS with reflinks. Cloning it
under the running writer takes one moment of the disk: what the kernel had written back by then, in
whatever order, and nothing else. Each clone is mounted, which replays its journal, and the log in it
is held against the ledger: what was acknowledged as synced before the clone is there. LOGSTORE_CUTS
sets the number of cuts. Needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logstore import Log
from tests.crash.histories import seeded
from tests.interop.disks import make, mounted, run
from tests.interop.power_cut_writer import SETTINGS, value_of
from tests.kit.waiting import is_readable

pytestmark = [pytest.mark.interop, pytest.mark.row("S20", part="power cuts")]

CUTS = int(os.environ.get("LOGSTORE_CUTS", "20"))
SCRIPT = Path(__file__).with_name("power_cut_writer.py")


class Ledger:
    """What the writer has said, and what must follow from it."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}  # append -> its records
        self.places: dict[int, int] = {}  # append -> its first offset, while it is in the log
        self.start = self.synced_end = 0
        self.truncating: int | None = None
        self.deleting: int | None = None
        self.least_end: int | None = None  # of the truncations begun, since `mark`
        self.gone: set[int] = set()  # appends that a finished truncation has taken

    def read(self, line: str) -> None:
        word, *numbers = line.split()
        first, *rest = (int(number) for number in numbers)
        if word == "a":
            self.counts[first] = rest[0]
        elif word == "A":
            self.places[first] = rest[0]
            if rest[1]:
                self.synced_end = rest[0] + self.counts[first]
        elif word == "F":
            self.synced_end = max(self.synced_end, first)
        elif word == "t":
            self.truncating = first
        elif word == "T":
            self.truncating = None
            for n in [n for n, place in self.places.items() if place + self.counts[n] > first]:
                del self.places[n]
                self.gone.add(n)
            self.synced_end = min(self.synced_end, first)
        elif word == "d":
            self.deleting = first
        elif word == "D":
            self.deleting = None
            self.start = first
            # What is deleted was synced first.
            self.synced_end = max(self.synced_end, first)

    def content(self) -> dict[int, tuple[int, int]]:
        return {place + i: (n, i) for n, place in self.places.items() for i in range(self.counts[n])}


class Writer:
    """The running process, with its ledger."""

    def __init__(self, path: Path, seed: int) -> None:
        self.lines: list[str] = []
        self._rest = b""
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(path), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        os.set_blocking(self.process.stdout.fileno(), False)

    def listen(self, count: int = 0) -> int:
        """Read all that was said by now, and wait for ``count`` more lines first; how many there are."""
        wanted = len(self.lines) + count
        while True:
            if not is_readable(self.process.stdout, 60 if len(self.lines) < wanted else 0):
                assert len(self.lines) >= wanted, "the writer says nothing"
                return len(self.lines)
            data = os.read(self.process.stdout.fileno(), 65_536)
            assert data, self.process.stderr.read().decode()
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.lines += [line.decode() for line in lines]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def examine(log, before: Ledger, after: Ledger, later: list[str]) -> int:
    """Hold a log against what was said before the cut, and against all that was said by its end."""
    found = {}
    for record in log:
        n, i = (int(word) for word in record.value.split(b"|")[0].split())
        assert record.value == value_of(n, i)
        found[record.offset] = (n, i)
    start, end = log.log_start_offset, log.log_end_offset
    assert list(found) == list(range(start, end)), "a gap"
    begun = [int(line.split()[1]) for line in later if line[0] in "td"]
    assert before.start <= start <= max([before.start, before.deleting or 0, *begun])
    cut = min([before.truncating, *(int(line.split()[1]) for line in later if line[0] == "t")], key=_no_end_last)
    for offset, sender in before.content().items():
        # A batch that a truncation meets inside goes whole.
        stays = cut is None or before.places[sender[0]] + before.counts[sender[0]] <= cut
        if start <= offset < before.synced_end and stays:
            assert found.get(offset) == sender, f"synced at {offset}: {sender}, found {found.get(offset)}"
    assert end >= min(before.synced_end, before.synced_end if cut is None else max(cut - 5, 0))
    for offset, (n, i) in found.items():
        assert n in after.counts, f"a phantom at {offset}"
        assert n not in before.gone, f"cut off for good, and back at {offset}: {n}"
        place = before.places.get(n, after.places.get(n))
        assert place is None or place + i == offset or n in after.gone
    whole = {}
    for n, i in found.values():
        whole.setdefault(n, []).append(i)
    last = found[end - 1][0] if found else None
    for n, records in whole.items():
        # The batch at the log start may begin below it.
        assert records[-1] == before.counts.get(n, after.counts[n]) - 1, "half a batch"
        assert records[0] == 0 or found[start][0] == n or n == last
    return len(found)


def _no_end_last(end: int | None) -> int:
    return 1 << 62 if end is None else end


@pytest.mark.timeout(120 + 20 * CUTS)
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_no_power_cut_on_a_real_file_system_loses_what_was_synced(tmp_path, kind):
    rng = seeded(f"power cuts on {kind}")
    outer = make(tmp_path / "outer", "xfs", 1_500, "-m", "reflink=1")
    cuts, kept = 0, 0
    with mounted(outer, tmp_path / "outer.d", "-o", "loop") as folder:
        options = ("-F",) if kind == "ext4" else ()
        image = make(folder / "inner", kind, 320, *options)
        clone = folder / "cut"
        while cuts < CUTS:
            with mounted(image, tmp_path / "inner.d", "-o", "loop") as disk:
                path = disk / f"logs{cuts}" / "t-0"
                writer = Writer(path, rng.randrange(2**32))
                try:
                    for _ in range(min(5, CUTS - cuts)):
                        said = writer.listen(rng.randrange(20, 400))
                        run("cp", "--reflink=always", image, clone)
                        # Whatever can be in the clone was announced by now.
                        heard = writer.listen()
                        before, after = Ledger(), Ledger()
                        for line in writer.lines[:said]:
                            before.read(line)
                        for line in writer.lines[:heard]:
                            after.read(line)
                        options = ("-o", "loop,nouuid") if kind == "xfs" else ("-o", "loop")
                        with mounted(clone, tmp_path / "cut.d", *options) as left:
                            with Log.open(left / path.relative_to(disk), SETTINGS) as log:
                                kept += examine(log, before, after, writer.lines[said:heard])
                                log.append([b"goes on"], ack="synced")
                        clone.unlink()
                        cuts += 1
                finally:
                    writer.kill()
    print(f"{cuts} power cuts on {kind}: {kept} records kept")
    assert kept
