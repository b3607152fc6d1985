"""The process that `test_kill.py` kills: it writes with five threads and says what was acknowledged.

Run as ``python killed_writer.py``; one line of JSON on standard input starts it, so that the next
victim can be made ready while the last one is examined. Every line of the ledger is one write to
standard output, after the acknowledgement (or, in small letters, before what it announces)::

    S                                 the log is open
    A thread n count first last       an append was acknowledged, or one batch of a turn or of a run
    e marker / E marker offset        a transaction is about to end / has ended
    d offset / D offset               delete_before
    c offset / C offset               truncate_to
    B epoch                           begin_epoch has returned
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading

from logstore.batch._encode import encode
from tests.kit.inside import producers_of
from tests.kit.logs import at

#: The senders of records: a thread each, but for the runs, which the thread of the plain ones replicates.
PLAIN, SYNCED, IDEMPOTENT, TRANSACTIONAL, TURNS, RUNS = SENDERS = range(6)
#: Batches of one turn, or of one run.
MOST = 4
PRODUCERS = {IDEMPOTENT: 1002, TRANSACTIONAL: 2003}
KEPT_RECORDS = 700
SETTINGS = {"segment_bytes": 6_000, "index_interval_bytes": 500}


def value_of(run: int, thread: int, n: int, i: int, count: int) -> bytes:
    """What a record says: who sent it, and bytes that follow from that."""
    pad = bytes([(run * 7 + thread * 13 + n * 31 + i) % 256]) * ((n * 37 + i * 11) % 160)
    return b"%d %d %d %d %d|" % (run, thread, n, i, count) + pad


def values_of(run: int, thread: int, n: int) -> list[bytes]:
    count = 1 + (n * 7 + thread) % 5
    return [value_of(run, thread, n, i, count) for i in range(count)]


class SpaceQuota:
    """Lets appends overlap, and keeps them out while the log is cut or its start is raised."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._shut = False

    def __enter__(self) -> None:
        with self._changed:
            while self._shut:
                self._changed.wait()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def shut(self) -> None:
        with self._changed:
            self._shut = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        with self._changed:
            self._shut = False
            self._changed.notify_all()


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Writer:
    def __init__(self, orders: dict, logstore) -> None:
        self.logstore = logstore
        self.run = orders["run"]
        self.rng = random.Random(orders["seed"])
        self.sequences = {int(k): v for k, v in orders["sequences"].items()}
        self.log = logstore.Log.open(orders["path"], **SETTINGS)
        self.quota = SpaceQuota()
        self.written: list[tuple[int, int, int]] = []  # (first offset, thread, sequence before)
        self.resume()
        say("S")

    def resume(self) -> None:
        """Each producer goes on behind its last batch, which its victim may not have heard of."""
        # First by what the log knows of a producer whose last batch has been deleted.
        for producer in producers_of(self.log):
            if producer.producer_id in self.sequences and producer.batches:
                self.sequences[producer.producer_id] = producer.next_sequence
        offset, end = self.log.log_start_offset, self.log.high_watermark
        while offset < end:
            batches = self.log.read(offset)
            for view in batches.batches():
                if view.producer_id in self.sequences and not view.is_control:
                    self.sequences[view.producer_id] = view.last_sequence + 1
            offset = batches.next_offset

    def append(self, thread: int, n: int) -> None:
        values = values_of(self.run, thread, n)
        stamp, codec = None, self.logstore.Codec(n % 5)
        sequence = -1
        if thread in PRODUCERS:
            sequence = self.sequences[PRODUCERS[thread]]
            stamp = self.logstore.log.ProducerStamp(PRODUCERS[thread], 0, sequence, thread == TRANSACTIONAL)
        ack = "synced" if thread == SYNCED or n % 11 == 10 else "written"
        done = self.log.append(values, codec=codec, producer=stamp, ack=ack)
        assert not done.duplicate
        if stamp is not None:
            self.sequences[stamp.producer_id] = sequence + len(values)
        self.written.append((done.first_offset, thread, sequence))
        say("A", thread, n, len(values), done.first_offset, done.last_offset)

    def acknowledge(self, thread: int, n: int, sizes: list[int], first: int) -> None:
        for number, size in enumerate(sizes, start=n):
            self.written.append((first, thread, -1))
            say("A", thread, number, size, first, first + size - 1)
            first += size

    def turns(self) -> None:
        """Batches of several clients in one call: a killed process has left the first of them, or none."""
        n = 0
        rng = random.Random(self.rng.random())
        while True:
            batches = [values_of(self.run, TURNS, number) for number in range(n, n + rng.randrange(1, MOST + 1))]
            with self.quota:
                ack = rng.choice(("written", "written", "synced"))
                results = self.log.replica.append_turn([encode(values) for values in batches], ack=ack)
                for number, (values, result) in enumerate(zip(batches, results, strict=True), start=n):
                    assert result.last_offset - result.first_offset + 1 == len(values)
                    self.acknowledge(TURNS, number, [len(values)], result.first_offset)
            n += len(batches)

    def replicate(self, n: int) -> int:
        """A run as from a leader, while nothing else is appended; the number of its batches."""
        first, epoch, run, sizes = self.log.log_end_offset, self.log.replica.leader_epoch, [], []
        for number in range(n, n + self.rng.randrange(1, MOST + 1)):
            values = values_of(self.run, RUNS, number)
            run.append(at(encode(values), first + sum(sizes), epoch))
            sizes.append(len(values))
        done = self.log.replica.append_replicated(b"".join(run), ack=self.rng.choice(("written", "synced")))
        assert (done.first_offset, done.last_offset) == (first, first + sum(sizes) - 1)
        self.acknowledge(RUNS, n, sizes, first)
        return len(sizes)

    def begin_epoch(self) -> None:
        epoch = self.log.replica.leader_epoch + 1
        self.log.replica.begin_epoch(epoch)
        say("B", epoch)

    def end(self, marker) -> None:
        say("e", int(marker))
        done = self.log.replica.append_control(marker, producer_id=PRODUCERS[TRANSACTIONAL], producer_epoch=0)
        say("E", int(marker), done.first_offset)

    def transactional(self) -> None:
        marker = self.logstore.log.Marker
        n = 0
        rng = random.Random(self.rng.random())
        while True:
            with self.quota:
                # Whatever a killed process or a truncation has left open is given up first.
                self.end(marker.ABORT)
                for _ in range(rng.randrange(1, 4)):
                    self.append(TRANSACTIONAL, n)
                    n += 1
                if rng.random() < 0.8:
                    self.end(marker.COMMIT if rng.random() < 0.6 else marker.ABORT)

    def simple(self, thread: int) -> None:
        n = 0
        while True:
            with self.quota:
                self.append(thread, n)
            n += 1

    def maintain(self) -> None:
        n = replicated = 0
        while True:
            with self.quota:
                self.append(PLAIN, n)
            n += 1
            choice = self.rng.random()
            if choice < 0.05:
                self.log.flush()
            elif choice < 0.08:
                self.log.maintenance.roll()
            elif choice < 0.13:
                self.quota.shut()
                self.shorten()
                self.quota.open()
            elif choice < 0.16:
                self.quota.shut()
                self.cut()
                self.quota.open()
            elif choice < 0.26:
                self.quota.shut()
                replicated += self.replicate(replicated)
                self.quota.open()
            elif choice < 0.32:
                self.begin_epoch()

    def shorten(self) -> None:
        # Not the records of an open transaction: who looks for it in the log could not find it.
        start = min(self.log.high_watermark - KEPT_RECORDS, self.log.last_stable_offset)
        if start > self.log.log_start_offset:
            say("d", start)
            say("D", self.log.delete_before(start))

    def cut(self) -> None:
        self.written.sort()
        back = self.rng.randrange(1, 12)
        if len(self.written) < 3 * back or self.written[-back][0] < self.log.log_start_offset:
            return
        end = self.written[-back][0]
        say("c", end)
        say("C", self.log.replica.truncate_to(end))
        for first, thread, sequence in reversed(self.written):
            if first >= end and thread in PRODUCERS:
                self.sequences[PRODUCERS[thread]] = sequence
        self.written = [entry for entry in self.written if entry[0] < end]


def main() -> None:
    import logstore

    orders = json.loads(sys.stdin.readline())
    writer = Writer(orders, logstore)
    threads = [
        threading.Thread(target=writer.simple, args=(SYNCED,)),
        threading.Thread(target=writer.simple, args=(IDEMPOTENT,)),
        threading.Thread(target=writer.transactional),
        threading.Thread(target=writer.turns),
        threading.Thread(target=writer.maintain),
    ]
    # A thread that fails ends the process: the parent waits for lines, and finds the traceback instead.
    threading.excepthook = lambda args: (sys.__excepthook__(*args[:3]), os._exit(1))
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
