"""What the operating system is asked for, counted by strace from outside.

The ordinary tests count the calls of the file table; these count what reaches the kernel, whatever has made it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from logstore import Log
from tests.interop.broker import strace

pytestmark = [pytest.mark.interop]

#: A call of the traced program: its name, and the file that its descriptor or path stands for.
CALL = re.compile(r"^(\d+) +(\w+)\((?:AT_FDCWD(?:<[^>]*>)?, )?(?:\d+<([^>]*)>|\"([^\"]*)\")?")

SYNCS = ("fsync", "fdatasync", "sync_file_range", "sync", "syncfs", "msync")
WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range")
READS = ("read", "pread64", "readv", "preadv", "preadv2", "mmap")
OPENS = ("open", "openat", "openat2")
NAMES = (
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "getdents64",
)

#: The traced program says where the part begins that counts.
MARK = "/here-the-part-that-counts-begins"


class Call(NamedTuple):
    name: str
    path: str
    thread: str

    @property
    def file(self) -> str:
        """The last part of the path."""
        return os.path.basename(self.path)

    @property
    def kind(self) -> str:
        return self.file[self.file.rfind(".") :]


def traced(program: str, directory: Path) -> list[Call]:
    """Run Python code under strace, in ``directory``; its file calls behind the mark, in order."""
    output = directory / "strace.txt"
    # A question mark: not every machine has every call.
    wanted = ",".join(
        f"?{name}" for name in (*SYNCS, *WRITES, *READS, *OPENS, *NAMES, "stat", "newfstatat", "statx")
    )
    options = ["-f", "-y", "-qq", "-s", "0", "-e", f"trace={wanted}", "-e", "signal=none"]
    head = f"import os\nfrom logstore import Log\ndef mark():\n    os.path.exists({MARK!r})\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [strace(), *options, "-o", str(output), sys.executable, "-c", head + program],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    if not output.exists() or not output.stat().st_size:
        pytest.fail(f"strace may not trace here: {done.stderr.strip()}", pytrace=False)
    assert done.returncode == 0, done.stderr
    calls, counts = [], False
    for line in output.read_text().splitlines():
        counts = counts or MARK in line
        match = CALL.match(line)
        if counts and match and " = -1 " not in line:
            calls.append(Call(match[2], match[3] or match[4] or "", match[1]))
    assert counts, "the program did not reach its mark"
    return calls


def count(calls: list[Call], names: tuple[str, ...], kind: str) -> int:
    return sum(call.name in names and call.kind == kind for call in calls)


@pytest.mark.row("S4")
def test_flush_messages_of_one_syncs_each_append(tmp_path: Path) -> None:
    calls = traced(
        """
with Log.open("root/t-0", flush_messages=1) as log:
    log.append([b"first"])
    mark()
    for n in range(50):
        log.append([b"%d" % n])
    os._exit(0)
""",
        tmp_path,
    )
    assert count(calls, SYNCS, ".log") == 50
    assert count(calls, WRITES, ".log") == 50
    assert sum(call.name in SYNCS for call in calls) == 50
    # Every write is followed by its own sync before the next.
    order = [call.name in SYNCS for call in calls if call.kind == ".log" and call.name in (*SYNCS, *WRITES)]
    assert order == [False, True] * 50


def test_a_thread_that_appends_makes_no_call_but_writes_while_segments_roll(tmp_path: Path) -> None:
    """Syncs, names and new files of rolls are for the background; the program waits for it here and there."""
    calls = traced(
        """
import threading, time
def rest():
    while any(thread.name == "logstore-rolls" for thread in threading.enumerate()):
        time.sleep(0.001)
with Log.open("root/t-0", segment_bytes=200_000, retention_ms=-1) as log:
    for n in range(150):
        log.append([b"v" * 1000])
    rest()
    before = log.metrics().counters
    mark()
    for n in range(2_000):
        log.append([b"v" * 1000])
        if n % 40 == 39:
            rest()
    counters = log.metrics().counters
    assert counters["rolls"] - before["rolls"] >= 10, counters
    assert counters["roll_waits"] == 0, counters
    os._exit(0)
""",
        tmp_path,
    )
    appending = calls[0].thread
    of_log = [call for call in calls if "/t-0" in call.path or call.path.endswith("root")]
    assert {call.name for call in of_log if call.thread == appending} == {"pwrite64"}
    others = {call.name for call in of_log if call.thread != appending}
    assert others & set(SYNCS)
    assert others & set(OPENS)
    assert others & {"rename", "renameat", "renameat2"}


@pytest.mark.row("S12")
def test_a_fetch_goes_from_the_file_to_the_socket_and_no_payload_through_the_process(tmp_path: Path) -> None:
    """16 MiB, fetched by regions of 1 MiB: sendfile carries the bytes, and reads are of headers alone."""
    calls = traced(
        """
import socket, threading
from logstore.batch._encode import encode
BATCH = bytes(encode([b"v" * 1_000] * 16))
log = Log.open("root/t-0")
for n in range(1_000):
    log.replica.append_batch(BATCH)
ours, theirs = socket.socketpair()
got = [0]
def drain():
    while data := theirs.recv(1 << 20):
        got[0] += len(data)
draining = threading.Thread(target=drain, daemon=True)
draining.start()
mark()
offset = 0
while offset < log.high_watermark:
    region = log.replica.fetch_region(offset, max_bytes=1 << 20).region
    region.send_to(ours)
    offset = region.next_offset
    region.close()
ours.close()
draining.join()
assert got[0] == 1_000 * len(BATCH), got
os._exit(0)
""",
        tmp_path,
    )
    assert not [call for call in calls if call.name in ("write", "writev") or (call.name == "mmap" and call.path)]
    # A region of 1 MiB: the bytes by sendfile, the place of its end by at most two reads.
    assert count(calls, ("read", "readv"), ".log") == 0
    assert count(calls, ("pread64", "preadv", "preadv2"), ".log") <= 2 * 16
    assert len([call for call in calls if call.name == "sendfile"]) >= 16


#: Ways to append 1 MiB in batches of about a KiB: what comes before the mark, and one round.
APPENDS = {
    "append": ("", "for _ in range(1_000): log.append([VALUE])"),
    "append_batch": ("", "for _ in range(1_000): log.replica.append_batch(BATCH)"),
    "append_many": (
        "topic = store.topic('t')",
        "for _ in range(250): topic.append_many([VALUE] * 4, partition=0, ack='written')",
    ),
    "append_turn": ("", "for _ in range(60): log.replica.append_turn([BATCH] * 16)"),
    "append_run": ("", "for _ in range(250): log.replica.append_run(bytearray(BATCH * 4), max_timestamp_ms=0)"),
    # A leader's batches: each has its offset, and epoch 0. Neither is in the checksum.
    "append_replicated": (
        "def led(first):\n"
        "    return b''.join((first + n).to_bytes(8) + BATCH[8:12] + bytes(4) + BATCH[16:] for n in range(4))",
        "for _ in range(250): log.replica.append_replicated(led(log.log_end_offset), ack='written')",
    ),
    "aborts": (
        "from logstore.log import Marker, ProducerStamp\n"
        "import itertools\n"
        "sequences = itertools.count(0, 2)\n"
        "def aborted():\n"
        "    log.append([VALUE] * 2, producer=ProducerStamp(7, 0, next(sequences), True))\n"
        "    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)",
        "for _ in range(400): aborted()",
    ),
    # The same, as a follower gets it.
    "replicated_aborts": (
        "from logstore.batch._batch import stamp, stamp_producer\n"
        "from logstore.batch._encode import encode_marker\n"
        "import itertools\n"
        "sequences = itertools.count()\n"
        "def aborted():\n"
        "    first = log.log_end_offset\n"
        "    data, marker = bytearray(BATCH), bytearray(encode_marker(0, 0, 7, 0, 0))\n"
        "    stamp_producer(data, 7, 0, next(sequences), transactional=True)\n"
        "    stamp(data, first, 0)\n"
        "    stamp(marker, first + 1, 0)\n"
        "    return bytes(data + marker)",
        "for _ in range(900): log.replica.append_replicated(aborted(), ack='written')",
    ),
    "producer": (
        "producer = store.producer(linger_ms=0, batch_size=1_100, value_serializer=None)",
        "for _ in range(1_000): producer.send('t', VALUE)\n    producer.flush()",
    ),
}


@pytest.mark.parametrize("way", APPENDS)
def test_no_way_to_append_makes_another_call_than_its_write_across_rolls(tmp_path: Path, way: str) -> None:
    """The program never pauses. Its segments take longer to fill than a disk needs for the last one.

    It appends in a second thread: for the main one, steps that no signal may interrupt are made by another thread,
    which would hide what an append waits for.
    """
    prepare, one_round = APPENDS[way]
    calls = traced(
        f"""
import logstore, threading, traceback
from logstore.batch._encode import encode
VALUE = b"v" * 1_000
BATCH = bytes(encode([VALUE]))
store = logstore.open("store", housekeeping="manual")
log = store.create_topic("t", segment_bytes=8 << 20, retention_ms=-1)[0]
{prepare}
def one_round():
    {one_round}
def run():
    one_round()
    before = log.metrics().counters
    mark()
    while log.metrics().counters["rolls"] < before["rolls"] + 5:
        one_round()
    counters = log.metrics().counters
    assert counters["roll_waits"] == before["roll_waits"], counters
def ending():
    try:
        run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
threading.Thread(target=ending).start()
""",
        tmp_path,
    )
    of_log = [call for call in calls if "/t-0" in call.path or call.path.endswith("/store")]
    appending = {call.thread for call in of_log if call.name in WRITES and call.kind == ".log"}
    assert Counter(call[:2] for call in of_log if call.thread in appending and call.name not in WRITES) == {}
    others = {call.name for call in of_log if call.thread not in appending}
    assert others & set(SYNCS)
    assert others & set(OPENS)
    assert others & {"rename", "renameat", "renameat2"}


@pytest.mark.row("S4")
def test_flush_ms_syncs_once_a_second(tmp_path: Path) -> None:
    """By a clock that the program moves: exact, however slow the machine is."""
    calls = traced(
        """
from logstore.testing import ManualClock
clock = ManualClock()
with Log.open("root/t-0", flush_ms=1000, clock=clock) as log:
    log.append([b"first"])
    log.flush()
    mark()
    for n in range(100):
        clock.advance(100)
        log.append([b"%d" % n])
        log.maintenance.tick()
    os._exit(0)
""",
        tmp_path,
    )
    assert count(calls, SYNCS, ".log") == 10
    assert count(calls, WRITES, ".log") == 100


@pytest.mark.row("S4")
def test_flush_ms_by_the_machines_clock_is_never_more_often(tmp_path: Path) -> None:
    calls = traced(
        """
import time
with Log.open("root/t-0", flush_ms=1000) as log:
    mark()
    begun = time.monotonic()
    while time.monotonic() < begun + 3.5:
        log.append([b"x"])
        log.wait_for(log.log_end_offset, timeout_s=0.02)
    log.append([b"x"])
    passed = time.monotonic() - begun
    open("passed", "w").write(str(passed))
    os._exit(0)
""",
        tmp_path,
    )
    passed = float((tmp_path / "passed").read_text())
    assert 1 <= count(calls, SYNCS, ".log") <= passed
    assert count(calls, WRITES, ".log") > 3


@pytest.mark.row("S4")
def test_without_flush_settings_nothing_is_synced(tmp_path: Path) -> None:
    calls = traced(
        """
with Log.open("root/t-0") as log:
    log.append([b"first"])
    mark()
    for n in range(200):
        log.append([b"%d" % n])
    os._exit(0)
""",
        tmp_path,
    )
    assert not [call for call in calls if call.name in SYNCS]


@pytest.mark.row("S6")
def test_a_thousand_records_of_one_append_are_one_write(tmp_path: Path) -> None:
    calls = traced(
        """
with Log.open("root/t-0") as log:
    for n in range(10):
        log.append([b"first"])
    mark()
    log.append([b"%0100d" % n for n in range(1000)])
    os._exit(0)
""",
        tmp_path,
    )
    writes = Counter(call.file for call in calls if call.name in WRITES)
    # The published end is shared with readers in other processes, without a call.
    assert writes == {"00000000000000000000.log": 1}


@pytest.mark.row("S2", "S3")
@pytest.mark.parametrize("descriptors", [1, 100])
def test_an_offset_opens_only_the_segment_that_holds_it(tmp_path: Path, descriptors: int) -> None:
    bases = [0, 1000, 2000, 2500, 2700]
    with Log.open(tmp_path / "root" / "t-0") as log:
        for base, end in zip(bases, [*bases[1:], 2_800], strict=True):
            for first in range(base, end, 10):
                log.append([b"%d" % n for n in range(first, first + 10)])
            log.maintenance.roll() if end < 2_800 else None
    names = sorted(path.name for path in (tmp_path / "root" / "t-0").glob("*.log"))
    assert names == [f"{base:020d}.log" for base in bases]
    # Opening a log asks every file for its size. One descriptor: none of them stays open from then.
    calls = traced(
        f"""
from logstore.io._files import Files
with Log.open("root/t-0", read_only=True, files=Files(descriptor_limit={descriptors})) as log:
    log.log_end_offset
    mark()
    batches = log.read(2600, max_bytes=1)
    assert batches.values()[0] == b"2600", batches.values()
    os._exit(0)
""",
        tmp_path,
    )
    opened = {call.file for call in calls if call.name in OPENS and call.file[:20].isdigit()}
    indexes = {f"00000000000000002500{suffix}" for suffix in (".index", ".timeindex")}
    assert opened == indexes | ({"00000000000000002500.log"} if descriptors == 1 else set())
    read = {call.file for call in calls if call.name in READS and call.kind == ".log"}
    assert read == {"00000000000000002500.log"}
