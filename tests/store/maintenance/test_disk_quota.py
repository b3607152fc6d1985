"""A disk that cannot fill: what goes first, who is refused, and that it goes on by itself."""

from __future__ import annotations

import errno
import random
import threading
from pathlib import Path

import pytest

import logstore
from logstore import Log
from logstore.errors import (
    DiskBudgetError,
    DiskFullError,
    InvalidSettingError,
    LogstoreError,
    NotSyncedError,
)
from logstore.io._files import LIBC
from logstore.io._interrupts import held
from logstore.log.maintenance import LogMaintenance
from logstore.log.marks.policies import HighWatermarkPolicy
from logstore.store.maintenance.disk_quota import Limits
from logstore.testing import ManualClock, SimDisk
from logstore.testing._faults import FaultyFiles
from logstore.testing.simdisk import POLICIES

#: A unit of what is appended: large enough that blocks of 4 KiB and indexes do not count for much.
KIB = 8 * 1024
HOUR_MS = 3_600_000

#: Segments of eight such units, and files that take what they hold.
SETTINGS = {"segment.bytes": 8 * KIB, "logstore.write.strategy": "extend"}


@pytest.fixture
def clock():
    return ManualClock()


def open_store(clock, budget=400 * KIB, *, files=None, path="/data", **settings):
    settings = {**SETTINGS, "logstore.disk.budget": budget, **settings}
    return logstore.open(path, settings, clock=clock, files=files or SimDisk(seed=1))


def fill(topic, units, *, partition=0, ack=None):
    """Append about so many units, one at a time."""
    for _ in range(units):
        topic.append(b"x" * 8100, partition=partition, ack=ack)


@pytest.mark.row("O14")
def test_the_oldest_records_go_first_over_all_topics_and_appends_go_on(clock):
    with open_store(clock) as store:
        old, new = store.create_topic("old"), store.create_topic("new")
        fill(old, 100)
        clock.advance(HOUR_MS)
        fill(new, 100)
        clock.advance(HOUR_MS)
        fill(old, 400)
        # What was written first is gone, from both; nothing was refused.
        assert 100 <= old[0].log_start_offset < 500
        assert new[0].log_start_offset > 0
        usage = store.disk_usage()
        assert usage.used_bytes <= usage.limit_bytes == 400 * KIB


def test_an_open_scan_keeps_what_the_budget_takes_and_appends_go_on(tmp_path, clock):
    with open_store(clock, files=LIBC, path=tmp_path / "s") as store:
        topic = store.create_topic("flights")
        fill(topic, 40)
        scan = topic.scan()
        fill(topic, 600)
        assert topic[0].log_start_offset > 40
        # What the scan holds has no name on the disk any more, and does not count.
        usage = store.disk_usage()
        assert usage.used_bytes <= usage.limit_bytes == 400 * KIB
        assert [record.offset for record in scan] == list(range(40))


def test_of_two_topics_the_one_with_older_records_loses_them(clock):
    with open_store(clock) as store:
        old, new = store.create_topic("old"), store.create_topic("new")
        fill(old, 120)
        clock.advance(HOUR_MS)
        fill(new, 300)
        assert old[0].log_start_offset > 0
        assert new[0].log_start_offset == 0


def test_what_retention_lets_go_of_goes_before_anything_else(clock):
    with open_store(clock) as store:
        short = store.create_topic("short", retention_ms=HOUR_MS)
        fill(short, 150)
        long = store.create_topic("long", retention_ms=100 * HOUR_MS)
        # Older by their timestamps, and kept longer by their topic.
        for _ in range(80):
            long.append(b"x" * 8100, timestamp=clock.now_ms() - HOUR_MS)
        clock.advance(2 * HOUR_MS)
        fill(long, 200)
        assert short[0].log_start_offset == short[0].log_end_offset
        assert long[0].log_start_offset == 0


@pytest.mark.row("R4")
@pytest.mark.row("O14")
def test_what_is_kept_for_ever_is_never_touched_and_appends_are_refused(clock):
    with open_store(clock) as store:
        kept = store.create_topic("kept", retention_ms=-1)
        with pytest.raises(DiskBudgetError, match=r"raise logstore\.disk\.budget") as refused:
            fill(kept, 1000)
        assert (refused.value.code, refused.value.retriable) == (56, True)
        end = kept[0].log_end_offset
        assert kept[0].log_start_offset == 0
        assert end > 300
        # Reads go on, and the log is as it was.
        assert [record.offset for record in kept[0].scan()] == list(range(end))
        with pytest.raises(DiskBudgetError):
            kept.append(b"x" * 8100)
        assert kept[0].log_end_offset == end


@pytest.mark.row("O14")
@pytest.mark.parametrize("how", ["delete_records", "delete_topic", "retention", "budget"])
def test_writing_goes_on_by_itself_once_there_is_space(clock, how):
    with open_store(clock) as store:
        other = store.create_topic("other", retention_ms=-1)
        fill(other, 100)
        kept = store.create_topic("kept", retention_ms=-1)
        with pytest.raises(DiskBudgetError):
            fill(kept, 1000)
        if how == "delete_records":
            other.delete_records({0: -1})
        elif how == "delete_topic":
            store.delete_topic("other")
        elif how == "retention":
            store.alter_topic("other", retention_ms=1)
            clock.advance(HOUR_MS)
        else:
            store.set_disk_budget(800 * KIB)
        fill(kept, 20)


def test_compacted_and_internal_topics_are_never_deleted_from(clock):
    with open_store(clock) as store:
        latest = store.create_topic("latest", 1, {"cleanup.policy": "compact"})
        for number in range(100):
            latest.append(b"x" * 8100, b"%d" % number)
        name = logstore.TopicPartition("latest", 0)
        store.commit_offsets("auditors", {name: 1})
        other = store.create_topic("other")
        fill(other, 600)
        assert latest[0].log_start_offset == 0
        assert other[0].log_start_offset > 0


def test_offsets_are_committed_though_the_budget_is_used_up(clock):
    with open_store(clock) as store:
        kept = store.create_topic("kept", retention_ms=-1)
        with pytest.raises(DiskBudgetError):
            fill(kept, 1000)
        name = logstore.TopicPartition("kept", 0)
        store.commit_offsets("auditors", {name: 7})
        assert store.committed("auditors", [name])[name].offset == 7


def test_a_large_active_segment_counts_as_closed_and_a_small_one_does_not(clock):
    with open_store(clock, **{"segment.bytes": 1 << 30}) as store:
        one, small = store.create_topic("one"), store.create_topic("small")
        fill(small, 10)
        fill(one, 600)
        assert one[0].log_start_offset > 0
        assert small[0].log_start_offset == 0


class Unmoved(HighWatermarkPolicy):
    """An owner that shows consumers nothing yet."""

    def high_watermark(self, log_end_offset, synced_end, current):
        return 0


def test_nothing_above_the_high_watermark_goes():
    with Log.open("/data/flights-0", SETTINGS, policy=Unmoved(), files=SimDisk()) as log:
        for _ in range(20):
            log.append([b"x" * 8100])
        assert log.maintenance.oldest_segment() is None
        log.replica.advance_high_watermark(log.log_end_offset)
        oldest = log.maintenance.oldest_segment()
        assert 0 < oldest.end_offset < 20


def test_one_partition_is_refused_and_internal_counting_is_right_after_reopening(clock):
    disk = SimDisk(seed=1)
    with open_store(clock, files=disk) as store:
        fill(store.create_topic("kept", 2, retention_ms=-1), 150)
        used = store.disk_usage().used_bytes
        on_disk = sum(len(data) for path, data in disk.image("/data/kept-0").items())
        on_disk += sum(len(data) for path, data in disk.image("/data/kept-1").items())
        assert on_disk <= used <= on_disk + 600 * KIB
    with open_store(clock, files=disk) as store:
        assert abs(store.disk_usage().used_bytes - on_disk) < 40 * KIB


def test_a_budget_below_what_is_pinned_is_refused_at_open_and_nothing_changes(clock):
    disk = SimDisk(seed=1)
    with open_store(clock, files=disk) as store:
        fill(store.create_topic("kept", retention_ms=-1), 200)
    before = disk.image("/data/kept-0")
    with pytest.raises(InvalidSettingError, match=r"must be kept.*raise the budget") as refused:
        open_store(clock, 100 * KIB, files=disk)
    assert refused.value.code == 40
    assert list(disk.image("/data/kept-0")) == list(before)
    with open_store(clock, files=disk) as store:
        assert store["kept"][0].log_end_offset == 200
        with pytest.raises(InvalidSettingError):
            store.set_disk_budget(100 * KIB)
        store["kept"].append(b"one")


def test_settings_that_would_pin_more_than_the_budget_are_refused(clock):
    with open_store(clock, 300 * KIB) as store:
        topic = store.create_topic("flights")
        fill(topic, 250)
        store.set_disk_budget(250 * KIB)
        with pytest.raises(InvalidSettingError):
            store.set_disk_budget(1)
        used = store.disk_usage().used_bytes
        store.set_disk_budget(used - 20 * KIB)
        with pytest.raises(InvalidSettingError):
            store.alter_topic("flights", retention_ms=-1)
        assert store.describe_topic("flights").settings == {}


def test_a_store_without_a_budget_has_none_to_change(clock):
    with logstore.open("/data", clock=clock, files=SimDisk()) as store:
        assert store.disk_usage().limit_bytes == -1
        with pytest.raises(InvalidSettingError, match="without one"):
            store.set_disk_budget(5)


def test_a_budget_larger_than_what_was_opened_lowers_by_deleting(clock):
    disk = SimDisk(seed=1)
    with open_store(clock, files=disk) as store:
        fill(store.create_topic("flights"), 300)
    with open_store(clock, 200 * KIB, files=disk) as store:
        store.housekeep()
        assert store["flights"][0].log_start_offset > 0
        usage = store.disk_usage()
        assert usage.used_bytes <= usage.limit_bytes


def test_shares_and_reserves():
    limits = Limits("80%", 0)
    assert limits.of(taken=0, total=1000, free=1000) == 800
    assert limits.of(taken=300, total=1000, free=100) == 400
    assert Limits(-1, 100).of(taken=300, total=1000, free=250) == 450
    assert Limits(-1, "50%").of(taken=300, total=1000, free=250) == 50
    assert Limits(500, "10%").of(taken=300, total=1000, free=350) == 500
    assert not Limits().is_set


@pytest.mark.row("O14")
@pytest.mark.row("S19")
def test_a_reserve_keeps_a_small_disk_from_filling(clock):
    disk = SimDisk(seed=1, capacity=600 * KIB)
    with open_store(clock, -1, files=disk, **{"logstore.disk.reserve": 100 * KIB}) as store:
        fill(store.create_topic("flights"), 2000)
        assert store["flights"][0].log_start_offset > 0
        assert disk.fired() == []


@pytest.mark.row("S19")
@pytest.mark.row("O14")
def test_a_disk_that_is_really_full_refuses_appends_and_reads_go_on_until_there_is_space(clock):
    disk = SimDisk(seed=1, capacity=500 * KIB)
    with logstore.open("/data", SETTINGS, clock=clock, files=disk) as store:
        kept = store.create_topic("kept", 2)
        with pytest.raises(DiskFullError) as refused:
            fill(kept, 1000)
        assert not isinstance(refused.value, DiskBudgetError)
        end = kept[0].log_end_offset
        assert [record.offset for record in kept[0].scan()] == list(range(end))
        kept.delete_records({0: -1})
        fill(kept, 100)
        assert kept[0].log_end_offset == end + 100


@pytest.mark.row("S19")
def test_when_one_partitions_disk_is_full_the_others_go_on(tmp_path, clock):
    files = FaultyFiles()
    with logstore.open(tmp_path / "data", SETTINGS, clock=clock, files=files) as store:
        topic = store.create_topic("flights", 2)
        fill(topic, 2, partition=0)
        files.fail("pwrite", errno=errno.ENOSPC, times=-1, path_contains="flights-0")
        with pytest.raises(DiskFullError, match="flights-0"):
            topic.append(b"one", partition=0)
        assert topic.append(b"one", partition=1).offset == 0
        files.heal()
        assert topic.append(b"one", partition=0).offset == 2


def test_a_memory_tail_waits_for_space(clock):
    with open_store(clock, **{"logstore.tail": "memory"}) as store:
        topic = store.create_topic("kept", retention_ms=-1)
        with pytest.raises((DiskFullError, NotSyncedError)):
            fill(topic, 3000, ack="synced")
        store.set_disk_budget(4000 * KIB)
        topic[0].flush()
        assert topic[0].log_end_offset >= 400
        assert [record.offset for record in topic[0].scan()] == list(range(topic[0].log_end_offset))


def test_space_is_made_for_a_memory_tail_too(clock):
    with open_store(clock, **{"logstore.tail": "memory"}) as store:
        topic = store.create_topic("flights")
        for _ in range(600):
            topic.append(b"x" * 8100, ack="synced")
        assert topic[0].log_start_offset > 0


def test_housekeeping_makes_space_ahead_of_need(clock):
    with open_store(clock, 800 * KIB) as store:
        topic = store.create_topic("flights")
        fill(topic, 700)
        store.housekeep()
        usage = store.disk_usage()
        assert usage.limit_bytes - usage.used_bytes >= usage.limit_bytes // 16 - 8 * KIB


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system in memory")
def test_a_budget_counts_what_files_really_take(tmp_path, clock):
    with open_store(clock, path=tmp_path / "data", files=LIBC) as store:
        fill(store.create_topic("flights"), 1000)
        total = sum(path.stat().st_size for path in (tmp_path / "data").rglob("*") if path.is_file())
        assert total <= 400 * KIB
        assert store["flights"][0].log_start_offset > 0


# -- power cuts and faults while room is made

SMALL = {"segment.bytes": 6000, "logstore.disk.budget": 150_000, "logstore.ack": "synced"}


def live(disk, sent):
    """Append until much had to be deleted; ``sent`` takes what was acknowledged, by topic."""
    with logstore.open("/data", SMALL, files=disk, clock=ManualClock()) as store:
        kept = store.create_topic("kept", retention_ms=-1)
        flights = store.create_topic("flights", 2)
        for number in range(110):
            for topic, partition in ((kept, 0), (flights, number % 2)) if number < 8 else ((flights, number % 2),):
                value = b"%06d" % number + b"x" * 2000
                topic.append(value, partition=partition)
                sent.setdefault((topic.name, partition), []).append(value)
        assert flights[0].log_start_offset > 0


def check_kept(disk, sent, acknowledged):
    """Nothing is gone but what is oldest, and nothing of what is kept for ever."""
    with logstore.open("/data", {**SMALL, "logstore.disk.budget": -1}, files=disk, clock=ManualClock()) as store:
        for name in store.topics():
            for log in store[name].partitions:
                values = [bytes(record.value) for record in log.scan()]
                start = log.log_start_offset
                mine = sent.get((name, log.name.partition), [])
                assert values == mine[start : start + len(values)], log.name
                assert start + len(values) >= acknowledged.get((name, log.name.partition), 0), log.name
                assert name != "kept" or start == 0


@pytest.mark.crash
@pytest.mark.row("S20", part="failing disk")
def test_a_power_cut_while_space_is_made_loses_only_what_was_to_go():
    disk = SimDisk(seed=3)
    disk.keep_moments()
    marks = []

    class Counting(dict):
        def setdefault(self, key, default):
            marks.append((disk.moment_count, {k: len(v) for k, v in self.items()}))
            return super().setdefault(key, default)

    sent = Counting()
    live(disk, sent)
    rng = random.Random(3)
    states = set()
    for at, moment in enumerate(disk.moments()):
        acknowledged = next((known for count, known in reversed(marks) if count <= at), {})
        policy = rng.choice(POLICIES)
        after = moment.crash(policy, seed=rng.getrandbits(63), page_bytes=512)
        if moment.pending and after.state_hash() not in states and rng.random() < 0.4:
            states.add(after.state_hash())
            check_kept(after, sent, acknowledged)
    assert len(states) > 100


@pytest.mark.crash
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_change_fails_in_turn_while_space_is_made(code):
    disk = SimDisk(seed=3)
    live(disk, {})
    count = disk.changes
    failed = 0
    for nth in range(1, count, 17):
        disk = SimDisk(seed=3)
        disk.fail("change", nth, errno=code)
        sent: dict[tuple[str, int], list[bytes]] = {}
        try:
            live(disk, sent)
        except LogstoreError:
            failed += 1
        disk.heal()
        # What was being appended may be there, though no writer was told.
        acknowledged = {key: len(values) for key, values in sent.items()}
        for key in (("kept", 0), ("flights", 0), ("flights", 1)):
            values = sent.setdefault(key, [])
            number = int(values[-1][:6]) + (2 if key[0] == "flights" else 1) if values else key[1]
            values.append(b"%06d" % number + b"x" * 2000)
        check_kept(disk.kill(), sent, acknowledged)
    assert failed > 5


def test_a_topic_that_is_altered_to_keep_for_ever_loses_nothing_to_a_thread_that_makes_space(clock, monkeypatch):
    with open_store(clock) as store:
        topic = store.create_topic("flights")
        other = store.create_topic("other")
        fill(topic, 30)
        clock.advance(60)
        fill(other, 30)
        really = Log.delete_before
        done = []

        def altered(log, offset):
            if not done:
                done.append(log.name.topic)
                store._host.topics_table.alter("flights", {"retention.ms": -1})
            return really(log, offset)

        monkeypatch.setattr(Log, "delete_before", altered)
        store._host.disk_quota.limits = Limits(40 * KIB)
        store._host.disk_quota.reclaim(0)
        assert done == ["flights"]
        assert other[0].log_start_offset > 0
        # The one that was under way; none after it.
        assert topic[0].log_start_offset <= 8


def test_a_log_with_a_memory_tail_is_deleted_without_space_while_another_thread_makes_some(clock, monkeypatch):
    """Before, each of the two waited for a lock of the other, and the store with them."""
    with open_store(clock, budget=200 * KIB) as store:
        doomed = store.create_topic("doomed", settings={"logstore.tail": "memory"})
        kept = store.create_topic("kept", retention_ms=-1)
        with pytest.raises(DiskBudgetError):
            fill(kept, 400)
        fill(doomed, 3)
        log = doomed[0]
        there, begun, retain = threading.Event(), threading.Event(), LogMaintenance.retain

        def slow(face, now_ms=None):
            if face.log.name == log.name:
                there.set()
                assert begun.wait(300)
                deleting.join(1)
            return retain(face, now_ms)

        monkeypatch.setattr(LogMaintenance, "retain", slow)
        store._host.disk_quota._refused = None
        deleting = threading.Thread(target=store.delete_topic, args=("doomed",), daemon=True)
        making = threading.Thread(target=store._host.disk_quota.reclaim, args=(100 * KIB,), daemon=True)
        making.start()
        assert there.wait(300)
        deleting.start()
        begun.set()
        making.join(300)
        deleting.join(300)
        assert not making.is_alive()
        assert not deleting.is_alive()
        assert store.topics() == ["kept"]


def test_a_log_is_written_and_read_while_its_store_reclaims_space_for_it(clock, monkeypatch):
    """There is space for a small record; without any, the other thread would wait for the same reclaim."""
    with open_store(clock) as store:
        topic = store.create_topic("flights")
        log, used, retain = topic[0], [], LogMaintenance.retain

        def use():
            log.append([b"small"])
            used.append(log.replica.fetch_region(log.log_start_offset).region)
            used.append(log.record_at(log.log_end_offset - 1).value)

        def slow(face, now_ms=None):
            if store._host.disk_quota.left() >= 200:
                beside = threading.Thread(target=use, daemon=True)
                beside.start()
                beside.join(60)
                assert not beside.is_alive(), "the reclaim holds up other threads of the log"
            return retain(face, now_ms)

        monkeypatch.setattr(LogMaintenance, "retain", slow)
        fill(topic, 600)
        assert len(used) >= 2
        assert set(used[1::2]) == {b"small"}
        assert None not in used


def test_a_store_that_has_filled_its_budget_opens_again_and_space_can_be_made(clock):
    disk = SimDisk(seed=1)
    with open_store(clock, budget=200 * KIB, files=disk) as store:
        with pytest.raises(DiskBudgetError):
            fill(store.create_topic("kept", retention_ms=-1), 400)
    with open_store(clock, budget=200 * KIB, files=disk) as store:
        with pytest.raises(DiskBudgetError):
            fill(store["kept"], 400)
        store["kept"].delete_records({0: -1})
        fill(store["kept"], 1)


@pytest.mark.parametrize("at", ["oldest_segment", "delete_before"])
def test_a_writer_that_never_rests_keeps_no_round_of_making_space_busy(clock, monkeypatch, at):
    """It appends whenever the log is looked at, or deleted from: what it adds is not of this round."""
    # Of a log that has one segment, its newest record tells whose turn it is.
    with open_store(clock, **({"segment.bytes": 200 * KIB} if at == "oldest_segment" else {})) as store:
        topics = [store.create_topic(name) for name in ("one", "two")]
        for topic in topics:
            fill(topic, 26)
        calls = 0
        face = Log if at == "delete_before" else LogMaintenance
        step = getattr(face, at)

        def beside_a_writer(self, *args):
            nonlocal calls
            calls += 1
            assert calls < 200, "kept busy"
            clock.advance(1)
            log = self if at == "delete_before" else self.log
            done = step(self, *args) if at == "delete_before" else None
            # Past the gate, as a writer that has been granted room before.
            for number in range(1 if at == "oldest_segment" else 12):
                monkeypatch.setattr(store._host.disk_quota, "reserve", lambda name, needed, *, refuses: needed)
                log.append([b"x" * (8100 if at == "delete_before" else 10 + number)])
            return step(self, *args) if at == "oldest_segment" else done

        monkeypatch.setattr(face, at, beside_a_writer)
        # More than there is: the round ends when all that was there has been deleted.
        with held(store._host.disk_quota._making):
            store._host.disk_quota._free_space_locked(10_000 * KIB)
        assert 1 < calls < 60
