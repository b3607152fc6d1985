"""Each file operation of a replica's calls fails in turn: the call has had its effect or none, and so after a kill.

`begin_epoch`, `append_replicated` and `restart_at` have the same suite beside their other tests. Here are the calls
that change marks, the policy, and what is recorded of the last stop and of the log's end.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from logstore import Log
from logstore.errors import OUT_OF_RESOURCES, StorageFailedError
from logstore.io._notifier import Notifier
from logstore.log import FixedPolicy, Moves
from logstore.log.formats.last_stop import Stop
from logstore.log.marks.policies import FOLLOWS
from logstore.testing import FaultyFiles, ManualClock
from tests.log.logs import crashed_copy, open_log, values_of

VALUES = [b"%d" % number for number in range(12)]
SETTINGS = {"segment_bytes": 300, "index_interval_bytes": 100}
LEADS = FixedPolicy(Moves.FROM_OUTSIDE)


def begun(place: Path) -> Path:
    """Make a log of two epochs, and leave it as a process does that has died; its stop is to be accepted."""
    with open_log(place, policy=LEADS, **SETTINGS) as log:
        log.replica.begin_epoch(2)
        log.append(VALUES[:1])
        copy = crashed_copy(log, place / "copy")
    # A copy is another directory: this stop is unclean.
    return copy


def fill(log: Log) -> None:
    for value in VALUES[1:]:
        log.append([value])
    log.flush()
    log.replica.advance_high_watermark(8)
    log.replica.begin_epoch(5)


class Seen(NamedTuple):
    """What a replica's calls change."""

    log_end_offset: int
    high_watermark: int
    policy: object
    epochs: tuple[tuple[int, int], ...]


def seen(log: Log) -> Seen:
    epochs = tuple((entry.epoch, entry.start_offset) for entry in log.replica.epochs.entries)
    return Seen(log.log_end_offset, log.high_watermark, log.replica.policy, epochs)


def listen(log: Log) -> None:
    notifier = Notifier(ManualClock())
    assert log.replica.listen(notifier).arm_while(12)


BEFORE = Seen(12, 8, LEADS, ((2, 0), (5, 12)))

#: The call, and what it changes.
CALLS: dict[str, tuple[Callable[[Log], object], Seen]] = {
    "accept_stop": (lambda log: log.replica.accept_stop(), BEFORE),
    "advance_high_watermark": (
        lambda log: log.replica.advance_high_watermark(11),
        BEFORE._replace(high_watermark=11),
    ),
    "listen": (listen, BEFORE),
    "set_policy, which lowers nothing": (
        lambda log: log.replica.set_policy(FOLLOWS),
        BEFORE._replace(policy=FOLLOWS),
    ),
    "set_policy, which raises the high watermark": (
        lambda log: log.replica.set_policy(FixedPolicy(Moves.WITH_END)),
        BEFORE._replace(high_watermark=12, policy=FixedPolicy(Moves.WITH_END)),
    ),
    "truncate_to an end without an epoch": (
        lambda log: log.replica.truncate_to(12),
        BEFORE._replace(epochs=((2, 0),)),
    ),
    "truncate_to below the high watermark": (
        lambda log: log.replica.truncate_to(3),
        BEFORE._replace(log_end_offset=3, high_watermark=3, epochs=((2, 0),)),
    ),
    "truncate_to above it": (
        lambda log: log.replica.truncate_to(9),
        BEFORE._replace(log_end_offset=9, epochs=((2, 0),)),
    ),
}


@pytest.mark.parametrize(("call", "after"), CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_a_call_whose_operations_fail_in_turn_has_had_its_effect_or_none(tmp_path, error, call, after):
    number, was_hit = 0, True
    while was_hit:
        number += 1
        files = FaultyFiles()
        place = begun(tmp_path / str(number))
        log = open_log(place, files=files, policy=LEADS, **SETTINGS)
        assert log.replica.last_stop.stop is Stop.UNCLEAN
        fill(log)
        assert seen(log) == BEFORE
        files.fail("change", number, errno=error)
        is_done = True
        try:
            call(log)
        except StorageFailedError as failure:
            is_done = False
            assert log.replica.failure is failure or log.replica.failure is failure.__cause__
            with pytest.raises(StorageFailedError):
                log.append([b"more"])
        except OUT_OF_RESOURCES:
            is_done = False
            assert (seen(log), log.replica.failure) == (BEFORE, None)
            files.heal()
            call(log)
            is_done = True
        was_hit = bool(files.fired()) or not is_done
        if is_done and log.replica.failure is None:
            assert same(seen(log), after)
        files.heal()
        killed = crashed_copy(log, tmp_path / f"killed {number}")
        log.close()
        for left in (place, killed):
            with open_log(left, policy=LEADS, **SETTINGS) as log:
                found = log.log_end_offset
                ends = {after.log_end_offset} if is_done else set(range(after.log_end_offset, 13))
                assert found in ends
                assert log.high_watermark <= found
                # An epoch may go before its end is cut, or stay: none claims a record of another.
                for batch in log.read(0, max_bytes=1 << 20).batches():
                    assert batch.leader_epoch == log.replica.epochs.epoch_at(batch.base_offset)
                log.replica.set_policy(FixedPolicy(Moves.WITH_END))
                assert values_of(log) == VALUES[:found]
                if left is place and is_done and call is CALLS["accept_stop"][0]:
                    assert log.replica.last_stop.stop is Stop.CLEAN
                log.append([b"more"])
                assert values_of(log) == [*VALUES[:found], b"more"]


def same(found: Seen, expected: Seen) -> bool:
    """Whether two are equal; two policies of the same rule are."""
    moves = [each.policy.moves for each in (found, expected)]
    return found._replace(policy=None) == expected._replace(policy=None) and moves[0] == moves[1]
