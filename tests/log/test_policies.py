"""Policies of the high watermark: each way that moves it, replaced while the log is open, and the checkpoint."""

from __future__ import annotations

import random
import shutil

import pytest

from logstore import Log
from logstore.config.log import LogConfig
from logstore.errors import LogClosedError, OffsetOutOfRangeError
from logstore.log import FixedPolicy, HighWatermarkPolicy, Moves, StandalonePolicy
from logstore.log.formats import checkpoints
from logstore.records import TopicPartition
from logstore.testing.conformance import HighWatermarkPolicyConformance
from tests.log.logs import crashed_copy, one_batch, open_log, values_of

WAYS = [Moves.WITH_END, Moves.WITH_SYNCED_END, Moves.FROM_OUTSIDE]


class TestFixedPolicy(HighWatermarkPolicyConformance):
    def make_policy(self, config: LogConfig) -> HighWatermarkPolicy:
        return FixedPolicy(Moves.WITH_SYNCED_END)


class Asked(HighWatermarkPolicy):
    """As a fixed way, but asked."""

    def __init__(self, moves: Moves) -> None:
        self.way = FixedPolicy(moves)
        self.calls = 0

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        self.calls += 1
        return self.way.high_watermark(log_end_offset, synced_end, current)


@pytest.mark.parametrize("moves", WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_a_fixed_way_does_what_a_policy_that_is_asked_does(tmp_path, moves, seed):
    asked = Asked(moves)
    logs = [
        open_log(tmp_path / name, policy=policy, segment_bytes=500)
        for name, policy in (("fixed", FixedPolicy(moves)), ("asked", asked))
    ]
    rng = random.Random(seed)
    for _ in range(60):
        step, count = rng.randrange(5), rng.randrange(1, 4)
        reached = rng.random()
        for log in logs:
            if step == 0:
                log.flush()
            elif step == 1:
                log.replica.advance_high_watermark(int(log.log_end_offset * reached))
            elif step == 2:
                log.replica.append_turn([one_batch([b"v"] * count)] * 2)
            elif step == 3 and reached < 0.2:
                log.replica.truncate_to(int(log.log_end_offset * (1 - reached)))
            else:
                log.append([b"v"] * count, ack="synced" if reached < 0.2 else None)
        marks = [(log.log_end_offset, log.high_watermark, log.last_stable_offset) for log in logs]
        assert marks[0] == marks[1]
    assert asked.calls > 20
    for log in logs:
        log.close()


def test_no_fixed_way_is_asked(tmp_path):
    class Silent(FixedPolicy):
        def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
            raise AssertionError

    for moves in WAYS:
        with open_log(tmp_path / moves.name, policy=Silent(moves)) as log:
            log.append([b"a"], ack="synced")
            log.replica.append_turn([one_batch([b"b"])])
            assert log.high_watermark == {Moves.WITH_END: 2, Moves.WITH_SYNCED_END: 1}.get(moves, 0)
    with pytest.raises(ValueError, match="subclass"):
        FixedPolicy(Moves.BY_POLICY)


def test_a_policy_is_replaced_and_the_high_watermark_never_falls(tmp_path):
    with open_log(tmp_path) as log:
        assert isinstance(log.replica.policy, StandalonePolicy)
        log.append([b"a", b"b"])
        follower = FixedPolicy(Moves.FROM_OUTSIDE)
        log.replica.set_policy(follower)
        assert log.replica.policy is follower
        log.append([b"c", b"d"])
        assert (log.high_watermark, values_of(log)) == (2, [b"a", b"b"])
        log.replica.advance_high_watermark(3)
        with pytest.raises(OffsetOutOfRangeError):
            log.replica.advance_high_watermark(5)
        log.replica.set_policy(FixedPolicy(Moves.WITH_SYNCED_END))
        assert log.high_watermark == 3
        log.flush()
        assert log.high_watermark == 4
        log.append([b"e"])
        log.replica.set_policy(FixedPolicy(Moves.WITH_END))
        assert log.high_watermark == 5
    with pytest.raises(LogClosedError):
        log.replica.set_policy(follower)


def test_a_reader_that_waits_is_woken_by_the_new_policy(tmp_path):
    with open_log(tmp_path, policy=FixedPolicy(Moves.FROM_OUTSIDE)) as log:
        log.append([b"a"])
        assert not log.wait_for(0, timeout_s=0)
        with open_log(tmp_path, read_only=True) as reader:
            assert values_of(reader) == []
            log.replica.set_policy(FixedPolicy(Moves.WITH_END))
            assert log.wait_for(0, timeout_s=0)
            assert values_of(reader) == [b"a"]


def test_an_error_of_the_new_policy_leaves_the_old_one(tmp_path):
    class Broken(HighWatermarkPolicy):
        def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
            raise RuntimeError("broken")

    with open_log(tmp_path) as log:
        before = log.replica.policy
        with pytest.raises(RuntimeError, match="broken"):
            log.replica.set_policy(Broken())
        assert log.replica.policy is before
        log.append([b"a"])
        assert log.high_watermark == 1


# --- the checkpoint -----------------------------------------------------------------------------


def outside() -> FixedPolicy:
    return FixedPolicy(Moves.FROM_OUTSIDE)


@pytest.mark.parametrize("policy", [outside, lambda: Asked(Moves.FROM_OUTSIDE)], ids=["fixed", "asked"])
def test_a_replica_begins_with_the_high_watermark_of_the_checkpoint(tmp_path, policy):
    with open_log(tmp_path, policy=policy()) as log:
        log.append([b"a", b"b", b"c"])
        log.replica.advance_high_watermark(2)
    with open_log(tmp_path, policy=policy()) as log:
        assert (log.high_watermark, values_of(log)) == (2, [b"a", b"b"])
        log.replica.advance_high_watermark(3)
    with open_log(tmp_path) as log:
        assert log.high_watermark == 3


def test_without_a_checkpoint_it_begins_with_the_log_start(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a", b"b", b"c"])
        log.delete_before(1)
    (tmp_path / checkpoints.HIGH_WATERMARKS).unlink()
    with open_log(tmp_path, policy=outside()) as log:
        assert log.high_watermark == 1


def test_a_checkpoint_above_the_log_end_is_lowered_to_it(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a", b"b", b"c"])
    marks = {TopicPartition("t", 0): 99}
    (tmp_path / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.write_offsets(marks))
    with open_log(tmp_path, policy=outside()) as log:
        assert log.high_watermark == 3


def test_after_a_truncation_below_it_a_crash_brings_no_higher_one_back(tmp_path):
    with open_log(tmp_path / "0", policy=outside()) as log:
        log.append([b"a"] * 6)
        log.append([b"b"] * 4)
        log.replica.advance_high_watermark(10)
    log = open_log(tmp_path / "0", policy=outside())
    assert log.high_watermark == 10
    log.replica.truncate_to(6)
    for _ in range(10):
        log.append([b"of another leader"], ack="synced")
    copy = crashed_copy(log, tmp_path / "1")
    log.close()
    with open_log(copy, policy=outside()) as log:
        assert (log.high_watermark, log.log_end_offset) == (6, 16)


def test_the_high_watermarks_of_neighbours_stay_after_a_truncation(tmp_path):
    with Log.open(tmp_path / "t-0") as log, Log.open(tmp_path / "u-0") as other:
        log.append([b"a"] * 6)
        other.append([b"a"] * 6)
    with Log.open(tmp_path / "t-0", policy=outside()) as log:
        log.replica.truncate_to(0)
        shutil.copytree(tmp_path, tmp_path.with_name("copy"), ignore=lambda *_: {".lock"})
    for root in (tmp_path, tmp_path.with_name("copy")):
        with Log.open(root / "u-0", policy=outside()) as other:
            assert other.high_watermark == 6
