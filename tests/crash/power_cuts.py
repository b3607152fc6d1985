"""Power cuts at every moment of a workload, and what has to be true of the disk afterwards.

A *state* is the whole disk after a cut, told from others by a hash of its names and bytes. `cut_all`
examines each once for each promise that it has to keep.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator

from logstore.errors import LogstoreError
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.histories import History, fields, visible
from tests.crash.workload import Promise, Workload, check_content, check_promise, open_log

#: How often each policy is drawn at a moment; those without chance are asked once.
DRAWS = {"none": 1, "all": 1, "prefix": 1, "torn": 2, "lost": 1, "zeroed": 1, "reordered": 2}
assert set(DRAWS) == set(POLICIES)


class Violation(AssertionError):
    """A promise that was not kept, with all that repeats it."""


class Examined:
    """What was seen of the states."""

    def __init__(self) -> None:
        self.states: set[int] = set()
        self.cuts = 0
        self._known: set[tuple[int, int]] = set()

    def is_new(self, disk: SimDisk, promise: Hashable) -> bool:
        self.cuts += 1
        found = disk.state_hash()
        self.states.add(found)
        key = (found, hash(promise))
        if key in self._known:
            return False
        self._known.add(key)
        return True


def moment_count(workload: Workload) -> int:
    return sum(chapter.disk.moment_count for chapter in workload.chapters)


def cut_all(workload: Workload, examined: Examined, *, share: float = 1.0, most: int | None = None) -> None:
    """Cut the power at every moment of a workload, by every policy; stop at ``most`` states.

    With a ``share`` each draw that keeps something of what was not synced is made with that chance.

    Raises:
        Violation: a promise was not kept.
    """
    rng = random.Random(workload.seed)
    for number, chapter in enumerate(workload.chapters):
        for at, (moment, promise, what) in enumerate(chapter.moments()):
            where = f"workload {workload.seed}, chapter {number}, moment {at} {what}"
            for after, words in new_states(moment, promise, rng, examined, share):
                try:
                    examine(workload, after, promise, rng)
                except (AssertionError, LogstoreError) as error:
                    raise Violation(f"{where}: {words}: {error!r}") from error
                if most is not None and len(examined.states) >= most:
                    return


def new_states(
    moment: SimDisk, promise: Hashable, rng: random.Random, examined: Examined, share: float
) -> Iterator[tuple[SimDisk, str]]:
    """The disks that a power cut may leave at a moment and that are new, with the words that repeat each."""
    for policy, draws in DRAWS.items():
        for _ in range(draws if moment.pending else policy == "none"):
            if policy != "none" and rng.random() > share:
                continue
            seed, page = rng.getrandbits(63), rng.choice((64, 512, 4096))
            after = moment.crash(policy, seed=seed, page_bytes=page)
            if examined.is_new(after, promise):
                yield after, f"crash({policy!r}, seed={seed}, page_bytes={page})"


def examine(workload: Workload, disk: SimDisk, promise: Promise, rng: random.Random) -> None:
    """Open what a power cut has left, look at all of it, write on, and lose the power again."""
    thorough, again = rng.random() < 0.1, rng.random()
    if rng.random() < 0.1:
        read_before_recovery(workload, disk, promise)
    if again < 0.15:
        # The power fails once more, while the log is being recovered.
        disk.keep_moments()
    log = open_log(workload, disk)
    opened = disk.moment_count
    try:
        kept = list(check_promise(log, promise))
        check_content(log, kept, thorough=thorough)
        before = promise._replace(sent=tuple(kept), least_end=0, clean=False)
        history = History(log, rng, kept)
        history.append(rng.randrange(1, 3), ack="synced")
        check_content(log, kept, thorough=False)
        promised = before._replace(
            sent=tuple(kept),
            epochs=(*promise.epochs[: len(kept) - 1], log.replica.leader_epoch),
            least_end=kept[-1].last + 1,
            start=log.log_start_offset,
            most_start=log.log_start_offset,
        )
        if again < 0.5:
            policy = rng.choice(POLICIES)
            open_again(workload, disk.crash(policy, seed=rng.getrandbits(63), page_bytes=512), promised)
    finally:
        log.close()
    if again >= 0.8:
        open_again(workload, disk, promised._replace(clean=True))
    elif again < 0.15 and opened:
        moment = next(disk.moments(rng.randrange(opened)))
        for policy in ("none", "torn", "reordered"):
            after = moment.crash(policy, seed=rng.getrandbits(63), page_bytes=512)
            open_again(workload, after, promise._replace(clean=False))


def read_before_recovery(workload: Workload, disk: SimDisk, promise: Promise) -> None:
    """A reader beside no writer may find less, or a tail that it cannot read; never what was not sent."""
    sent = {record[0]: record for record in visible(list(promise.sent))}
    try:
        with open_log(workload, disk, read_only=True) as log:
            for record in log.scan():
                assert fields(record) == sent.get(record.offset), f"a reader was given {fields(record)}"
    except LogstoreError:
        pass


def open_again(workload: Workload, disk: SimDisk, promise: Promise) -> None:
    with open_log(workload, disk) as log:
        kept = check_promise(log, promise)
        check_content(log, kept, thorough=False)
