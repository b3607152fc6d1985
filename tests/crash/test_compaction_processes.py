"""Other processes read a log while its owner compacts it: nothing torn, nothing aborted, nothing out of order."""

from __future__ import annotations

import subprocess
import sys

import pytest

from logstore import Log
from logstore.log import Marker, ProducerStamp
from tests.kit.inside import producers_of

pytestmark = [pytest.mark.crash, pytest.mark.row("R3")]

#: Follows the log from its start to its end again and again, with few descriptors, until its input ends. The
#: value of a record is its offset; "no" is in records that were aborted.
READER = """
import selectors, sys
from logstore import Log
from logstore.io._files import Files
rounds = 0
waiting = selectors.DefaultSelector()
waiting.register(sys.stdin, selectors.EVENT_READ)
with Log.open(sys.argv[1], read_only=True, files=Files(descriptor_limit=16)) as log:
    while True:
        ended = bool(waiting.select(0))
        offset, newest, seen = 0, {}, 0
        before = log.last_stable_offset
        while offset < log.last_stable_offset:
            run = log.read(offset, max_bytes=2_000, isolation="read_committed")
            for record in run:
                assert offset <= record.offset and int(record.value) == record.offset, (offset, record)
                newest[record.key] = record.offset
                seen += 1
            offset = run.next_offset
        assert newest or not before, before
        rounds += 1
        print(rounds, len(newest), max(newest.values(), default=-1), flush=True)
        if ended:
            break
"""

KEYS, ROUNDS = 30, 15


def test_processes_that_read_beside_a_compaction_see_every_key_as_it_was_written(tmp_path):
    path = tmp_path / "t-0"
    log = Log.open(path, cleanup_policy="compact", segment_bytes=4_000, index_interval_bytes=300)
    append(log, 10)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for reader in readers:
            reader.stdout.readline()  # it is at work
        for _ in range(ROUNDS):
            append(log, 30)
            log.maintenance.roll()
            log.maintenance.compact()
        newest = {record.key: record.offset for record in log.scan(isolation="read_committed")}
        for reader in readers:
            told, errors = reader.communicate(timeout=300)
            assert reader.returncode == 0, errors
            rounds, keys, last = map(int, told.splitlines()[-1].split())
            assert rounds > 1
            assert (keys, last) == (len(newest), max(newest.values()))
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()
        log.close()


def append(log: Log, batches: int) -> None:
    for number in range(batches):
        first = log.log_end_offset
        log.append([(b"k%d" % ((first + n) % KEYS), b"%d" % (first + n)) for n in range(5)])
        if number % 3 == 0:
            producer = producers_of(log).get(9)
            sequence = 0 if producer is None else producer.next_sequence
            log.append([(b"k%d" % number, b"no")], producer=ProducerStamp(9, 0, sequence, True))
            log.replica.append_control(Marker.ABORT, producer_id=9, producer_epoch=0)
