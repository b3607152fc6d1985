"""The recurring work of a store: what is done, when, and that nothing is kept from ending by it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import warnings

import pytest

import logstore
from logstore import Log
from logstore.dropped import release_all
from logstore.errors import CorruptRecordError, StorageError
from logstore.io._interrupts import held
from logstore.log.append import flush
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.maintenance import LogMaintenance
from logstore.metrics import Taken
from logstore.store.maintenance.scheduler import Interrupted, Scheduler
from logstore.store.maintenance.tasks import REST, MaintenanceTasks, Throttle
from logstore.testing import ManualClock
from tests.kit.inside import have_more_to_sync, is_closed, locks_of

DAY_MS = 86_400_000


@pytest.fixture
def clock():
    return ManualClock()


def open_store(path, clock=None, **settings):
    options = {} if clock is None else {"clock": clock}
    return logstore.open(path / "data", settings, **options)


def hasten(scheduler, name):
    """Have a task run as soon as its turn comes, and then in its period again."""
    with held(scheduler._changed):
        for task in scheduler._tasks:
            if task.name == name:
                task.due_s = scheduler.clock.monotonic_s()
        scheduler._changed.notify_all()


def fill(topic, count=10, partition=0, size=50):
    for number in range(count):
        topic.append(b"%*d" % (size, number), b"key", partition=partition)


# -- retention, as a store does it


@pytest.mark.row("R1")
@pytest.mark.row("V8")
def test_at_seven_days_and_a_minute_old_segments_are_gone_and_at_six_days_they_are_there(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", segment_bytes=500, retention_ms=7 * DAY_MS)
        fill(topic)
        end = topic[0].log_end_offset
        clock.advance(6 * DAY_MS)
        store.housekeep()
        assert topic[0].log_start_offset == 0
        clock.advance(DAY_MS + 60_000)
        store.housekeep()
        assert (topic[0].log_start_offset, topic[0].log_end_offset) == (end, end)


@pytest.mark.row("R2")
def test_by_size_no_more_than_the_limit_and_one_segment_stays(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", retention_bytes=2000, segment_bytes=500)
        fill(topic, 100)
        store.housekeep()
        assert 0 < topic[0].log_start_offset < 100
        assert store.describe_topic("flights").partitions[0].size <= 2000 + 500


@pytest.mark.row("R4")
def test_without_limits_everything_is_kept(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", retention_ms=-1, retention_bytes=-1, segment_bytes=500)
        fill(topic, 50)
        clock.advance(4000 * DAY_MS)
        store.housekeep()
        assert topic[0].log_start_offset == 0


def test_the_maintenance_tasks_run_for_unused_logs_too(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", 3, segment_bytes=500, retention_ms=7 * DAY_MS)
        for partition in range(3):
            fill(topic, partition=partition)
    clock.advance(8 * DAY_MS)
    with open_store(tmp_path, clock) as store:
        store.housekeep()
        assert [log.log_start_offset for log in store["flights"].partitions] == [10, 10, 10]


def looks(store, monkeypatch):
    """Return a list of the logs that retention looks at without opening them, which grows."""
    looked, honest = [], store._host.partitions.at_rest
    monkeypatch.setattr(store._host.partitions, "at_rest", lambda name: looked.append(name) or honest(name))
    return looked


def reopened(tmp_path, clock, **settings):
    """Open a store with a topic of three partitions, of which the last one was never used."""
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", 3, segment_bytes=500, **{"retention_ms": 7 * DAY_MS, **settings})
        for partition in range(2):
            fill(topic, partition=partition)
    return open_store(tmp_path, clock)


def test_logs_of_which_nothing_is_to_be_deleted_are_looked_at_once_and_never_opened(tmp_path, clock, monkeypatch):
    with reopened(tmp_path, clock) as store:
        looked = looks(store, monkeypatch)
        for _ in range(3):
            clock.advance(DAY_MS)
            store.housekeep()
        assert len(looked) == 3
        assert not list(store._host.partitions.opened())
        # A record is older than the limit from one millisecond behind it on.
        clock.advance(4 * DAY_MS)
        store.housekeep()
        assert not list(store._host.partitions.opened())
        clock.advance(1)
        store.housekeep()
        assert len(looked) == 3
        assert [log.name.partition for log in store._host.partitions.opened()] == [0, 1]
        assert [log.log_start_offset for log in store["flights"].partitions] == [10, 10, 0]


def test_logs_that_were_not_closed_are_opened_and_so_recovered(tmp_path, clock):
    """Files that a deletion has left go then, and records that no reader sees yet count."""
    with reopened(tmp_path, clock) as store:
        fill(store["flights"], partition=0)
        shutil.copytree(tmp_path / "data", tmp_path / "killed" / "data", ignore=shutil.ignore_patterns("*.socket"))
    with open_store(tmp_path / "killed", clock) as store:
        store.housekeep()
        assert [log.name.partition for log in store._host.partitions.opened()] == [0]


def test_a_log_that_is_too_large_is_opened_and_one_that_is_not_is_left_alone(tmp_path, clock):
    with reopened(tmp_path, clock, retention_ms=-1, retention_bytes=600):
        pass
    with open_store(tmp_path, clock) as store:
        fill(store["flights"], 2, partition=2)
    with open_store(tmp_path, clock) as store:
        store.housekeep()
        assert [log.name.partition for log in store._host.partitions.opened()] == [0, 1]
        assert all(log.log_start_offset > 0 for log in store._host.partitions.opened())


def test_a_shorter_retention_counts_for_logs_that_rest(tmp_path, clock):
    with reopened(tmp_path, clock) as store:
        store.housekeep()
        clock.advance(DAY_MS)
        store.alter_topic("flights", {"retention.ms": DAY_MS // 2})
        store.housekeep()
        assert [log.log_start_offset for log in store["flights"].partitions] == [10, 10, 0]


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
def test_old_records_that_come_to_a_log_that_rested_are_deleted(tmp_path, clock):
    with reopened(tmp_path, clock) as store:
        store.housekeep()
        store["flights"].append(b"old", partition=2, timestamp=clock.now_ms() - 8 * DAY_MS)
        assert ("flights", 2) not in store._host.partitions.resting
        store._host.partitions.close_topic("flights")
        store.housekeep()
        assert store["flights"][2].log_start_offset == 1


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
def test_a_topic_of_the_same_name_does_not_rest_because_the_last_one_did(tmp_path, clock):
    with reopened(tmp_path, clock) as store:
        store.housekeep()
        store.delete_topic("flights")
        topic = store.create_topic("flights", 3, segment_bytes=500, retention_ms=7 * DAY_MS)
        topic.append(b"old", partition=2, timestamp=clock.now_ms() - 8 * DAY_MS)
        store._host.partitions.close_topic("flights")
        store.housekeep()
        assert topic[2].log_start_offset == 1


@pytest.mark.filterwarnings("ignore::logstore.errors.RetentionWarning")
def test_a_log_that_is_opened_while_it_is_looked_at_does_not_rest(tmp_path, clock, monkeypatch):
    with reopened(tmp_path, clock) as store:
        honest = store._host.partitions.at_rest

        def at_rest(name):
            reader = honest(name)
            store["flights"].append(b"old", partition=name.partition, timestamp=clock.now_ms() - 8 * DAY_MS)
            return reader

        monkeypatch.setattr(store._host.partitions, "at_rest", at_rest)
        store.housekeep()
        assert not store._host.partitions.resting
        store._host.partitions.close_topic("flights")
        monkeypatch.undo()
        clock.advance(1)
        store.housekeep()
        assert store["flights"][2].log_start_offset == 1


def test_a_damaged_partition_is_reported_once_and_the_others_are_kept_house(tmp_path, clock, caplog):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", 2, segment_bytes=500, retention_ms=7 * DAY_MS)
        fill(topic, partition=0)
        fill(topic, partition=1)
    segment = sorted((tmp_path / "data" / "flights-0").glob("*.log"))[-1]
    segment.write_bytes(b"\0" * segment.stat().st_size)
    (tmp_path / "data" / "flights-0" / "logstore.recovery").write_bytes(b"")
    for older in sorted((tmp_path / "data" / "flights-0").glob("*.log"))[:-1]:
        older.write_bytes(b"\0" * older.stat().st_size)
    clock.advance(8 * DAY_MS)
    with open_store(tmp_path, clock) as store:
        for _ in range(3):
            store.housekeep()
        assert store["flights"][1].log_start_offset == 10
        assert caplog.text.count("housekeeping passes over a partition: log=flights-0") == 1
        with pytest.raises(CorruptRecordError):
            store["flights"][0]


def test_the_dirtiest_log_is_compacted_and_then_the_others(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        settings = {"cleanup.policy": "compact", "segment.bytes": 500, "min.cleanable.dirty.ratio": 0.1}
        for name in ("latest", "newest"):
            fill(store.create_topic(name, 1, settings), 20)
        store.housekeep()
        for name in ("latest", "newest"):
            log = store[name][0]
            # One record of the key in what is sealed, and what the active segment holds.
            assert len(list(log.scan())) < 12, name
            assert list(log.scan())[-1].offset == 19


def test_housekeeping_ends_though_a_compacted_topic_is_written_all_the_while(tmp_path, clock, monkeypatch):
    """It went on until nothing was dirty, which a writer can put off for ever."""
    with open_store(tmp_path, clock) as store:
        settings = {"cleanup.policy": "compact", "segment.bytes": 500, "min.cleanable.dirty.ratio": 0.1}
        topics = [store.create_topic(name, 1, settings) for name in ("latest", "newest")]
        for topic in topics:
            fill(topic, 20)
        compacted, compact = [], LogMaintenance.compact

        def compact_and_write(face, **options):
            done = compact(face, **options)
            compacted.append(face.log.name.topic)
            if len(compacted) < 20:
                for topic in topics:
                    fill(topic, 20)
            return done

        monkeypatch.setattr(LogMaintenance, "compact", compact_and_write)
        store.housekeep()
        assert sorted(compacted) == ["latest", "newest"]


def test_compaction_waits_where_it_is_told_to(tmp_path, clock):
    with open_store(tmp_path, clock, **{"log.cleaner.io.max.bytes.per.second": 1000}) as store:
        topic = store.create_topic("latest", 1, {"cleanup.policy": "compact", "segment.bytes": 500})
        fill(topic, 40)
        before = clock.monotonic_s()
        store.housekeep()
        assert len(list(topic[0].scan())) < 12
        # More than 4 kB were read, and time passed as if for that much.
        assert clock.monotonic_s() - before > 4


def test_without_a_cleaner_nothing_is_compacted(tmp_path, clock):
    with open_store(tmp_path, clock, **{"log.cleaner.enable": False}) as store:
        topic = store.create_topic("latest", 1, {"cleanup.policy": "compact", "segment.bytes": 500})
        fill(topic, 40)
        store.housekeep()
        assert len(list(topic[0].scan())) == 40


def test_committed_offsets_expire(tmp_path, clock):
    with open_store(tmp_path, clock, **{"offsets.retention.minutes": 10}) as store:
        topic = store.create_topic("flights")
        fill(topic, 3)
        name = logstore.TopicPartition("flights", 0)
        store.commit_offsets("auditors", {name: 2})
        store.housekeep()
        assert store.committed("auditors", [name])[name] is not None
        clock.advance(11 * 60_000)
        store.housekeep()
        assert store.committed("auditors", [name]).get(name) is None


# -- the checkpoints of the root


def test_checkpoints_are_written_while_the_store_is_open(tmp_path, clock):
    root = tmp_path / "data"
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights")
        fill(topic, 5)
        topic[0].flush()
        topic[0].delete_before(2)
        fill(topic, 1)
        store.housekeep()
        name = logstore.TopicPartition("flights", 0)
        offsets = {
            file: checkpoints.read_offsets((root / file).read_bytes(), file)[name]
            for file in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS)
        }
        assert list(offsets.values()) == [5, 2, 6]
        assert not (root / checkpoints.CLEAN_SHUTDOWN).exists()


def test_our_own_old_checkpoint_does_not_lower_what_is_known_to_be_on_disk(tmp_path, clock):
    crashed = checkpointed_and_crashed(tmp_path, clock)
    log = Log.open(crashed / "flights-0")
    assert log.metrics().recovered_bytes == 0
    log.close()


def test_a_checkpoint_of_kafka_does_lower_it(tmp_path, clock):
    crashed = checkpointed_and_crashed(tmp_path, clock)
    (crashed / checkpoints.RECOVERY_POINTS).write_bytes(b"0\n1\nflights 0 1\n")
    log = Log.open(crashed / "flights-0")
    assert log.metrics().recovered_bytes > 0
    log.close()


def checkpointed_and_crashed(tmp_path, clock):
    """A copy of a root as a killed process leaves it: its checkpoint is older than the last sync."""
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights")
        fill(topic, 2)
        topic[0].flush()
        store.housekeep()
        fill(topic, 2)
        topic[0].flush()
        shutil.copytree(tmp_path / "data", tmp_path / "crashed", ignore=shutil.ignore_patterns("logstore.socket"))
    return tmp_path / "crashed"


def test_one_log_opened_after_a_crash_does_not_make_the_root_clean(tmp_path, clock):
    """With the mark, Kafka would look at no log at all, also not at the one that was not opened since."""
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", 2)
        fill(topic, partition=0)
        fill(topic, partition=1)
        shutil.copytree(tmp_path / "data", tmp_path / "crashed", ignore=shutil.ignore_patterns("logstore.socket"))
    crashed = tmp_path / "crashed"
    Log.open(crashed / "flights-0").close()
    assert not (crashed / checkpoints.CLEAN_SHUTDOWN).exists()
    Log.open(crashed / "flights-1").close()
    assert (crashed / checkpoints.CLEAN_SHUTDOWN).exists()


def test_a_topic_made_again_does_not_begin_where_the_old_one_did(tmp_path, clock):
    with open_store(tmp_path, clock) as store:
        fill(store.create_topic("flights"), 5)
        store["flights"][0].flush()
        store["flights"].delete_records({0: 5})
        store.housekeep()
        store.delete_topic("flights")
        root = Directory(tmp_path / "data")
        for name in (checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
            assert checkpoints.read_offsets(root.read(name), name) == {}
        assert root.read(checkpoints.RECOVERY_POINTS) is None


# -- the thread


def housekeeping_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("logstore-housekeeping")]


def test_a_store_on_the_machines_clock_has_threads_that_die_with_it(tmp_path):
    before = len(housekeeping_threads())
    with open_store(tmp_path):
        # One for its logs and one for requests: a sender does not wait for a compaction.
        assert len(housekeeping_threads()) == before + 2
    assert len(housekeeping_threads()) == before


def test_no_thread_for_a_store_that_is_driven_or_read_only(tmp_path, clock):
    before = len(housekeeping_threads())
    with open_store(tmp_path, clock), logstore.open(tmp_path / "data", read_only=True):
        assert len(housekeeping_threads()) == before
    with open_store(tmp_path, **{"logstore.housekeeping": "manual"}) as store:
        assert len(housekeeping_threads()) == before
        store.housekeep()


def test_the_thread_keeps_no_dropped_store_alive(tmp_path):
    before = len(housekeeping_threads())
    store = open_store(tmp_path)
    store.create_topic("flights").append(b"one")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        del store
        gc.collect()
        release_all()
    assert any("was left open" in str(warning.message) for warning in told)
    assert len(housekeeping_threads()) == before
    with open_store(tmp_path) as store:
        assert [record.value for record in store["flights"].read()] == [b"one"]


def test_a_store_collected_inside_its_own_thread_is_closed_by_another(tmp_path):
    """The collector of cycles may run anywhere, also while a task holds what closing needs."""
    store = open_store(tmp_path, **{"logstore.housekeeping": "manual"})
    lifecycle, scheduler = store._host.lifecycle, store._host.scheduler
    inside, seen = threading.Event(), []

    def task():
        lifecycle.forgotten()
        seen.append(lifecycle.closed)
        inside.set()

    scheduler.add("collecting", 0, task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        scheduler.start()
        assert inside.wait(300)
        release_all()
    assert seen[0] is False
    assert lifecycle.closed
    assert not scheduler._thread.is_alive()
    store._host._finalizer.detach()


@pytest.mark.parametrize("where", ["append", "sync", "compaction"])
def test_a_store_collected_in_the_middle_of_a_call_to_its_log_does_not_hang(tmp_path, monkeypatch, where):
    """A reference to a log keeps no store: the collector may take that in the middle of an append."""
    store = open_store(tmp_path, **{"logstore.housekeeping": "manual"})
    log = store.create_topic("flights")[0]
    log.append([b"one"])
    lifecycle = store._host.lifecycle
    honest = flush.Flusher.has_one_file_locked
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        if where == "sync":

            def collecting(self):
                # This thread leads the group commit, and holds the log's lock.
                monkeypatch.undo()
                lifecycle.forgotten()
                assert not is_closed(log)
                return honest(self)

            monkeypatch.setattr(flush.Flusher, "has_one_file_locked", collecting)
            have_more_to_sync(log)
            log.append([b"two"], ack="synced")
        else:
            with locks_of(log)[where]:
                lifecycle.forgotten()
                assert not is_closed(log)
        release_all()
    assert lifecycle.closed
    store._host._finalizer.detach()
    with open_store(tmp_path) as again:
        assert next(iter(again["flights"].read())).value == b"one"


def test_a_store_that_is_left_open_is_closed_when_the_program_ends(tmp_path):
    code = (
        "import logstore, sys\n"
        "store = logstore.open(sys.argv[1])\n"
        "store.create_topic('flights').append(b'one')\n"
        "store.offsets\n"
    )
    told = subprocess.run(
        [sys.executable, "-W", "always", "-c", code, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "was left open" in told.stderr
    assert (tmp_path / "data" / checkpoints.CLEAN_SHUTDOWN).exists()


def test_a_child_of_a_fork_has_no_part_in_it(tmp_path):
    with open_store(tmp_path) as store:
        topic = store.create_topic("flights")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                store.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        topic.append(b"one")


def test_a_task_that_fails_is_reported_and_runs_again(caplog):
    scheduler = Scheduler(logstore.clock.SYSTEM_CLOCK, "here")
    done, calls = threading.Event(), []

    def task():
        calls.append(1)
        if len(calls) == 1:
            raise StorageError("the disk said no")
        done.set()

    scheduler.add("failing", 1, task)
    scheduler.start()
    assert done.wait(300)
    scheduler.close()
    assert caplog.text.count("housekeeping failed: store=here task=failing") == 1


def test_tasks_run_when_they_are_due():
    clock = ManualClock(skip_waits=False)
    scheduler = Scheduler(clock, "here")
    ran = threading.Semaphore(0)
    calls = []
    scheduler.add("slow", 10_000, lambda: calls.append("slow") or ran.release())
    scheduler.add("quick", 1_000, lambda: calls.append("quick") or ran.release())
    scheduler.start()
    try:
        for _ in range(3):
            clock.advance(1_000)
            assert ran.acquire(timeout=300)
        assert calls == ["quick"] * 3
        hasten(scheduler, "slow")
        assert ran.acquire(timeout=300)
        assert calls == [*["quick"] * 3, "slow"]
    finally:
        scheduler.close()


MIB = 1 << 20


def slowdown(appends=0.0, size=0.0, sync_s=0.0, *, until=None, mib_s=250.0, chunks=400):
    """How many times as long a compaction takes beside so many appends, bytes and seconds of syncs a second.

    The time is the clock's, which its work and its rests move; appends end at ``until``.
    """
    clock = ManualClock()
    scheduler = Scheduler(clock, "here")

    def taken():
        now = clock.monotonic_s() if until is None else min(clock.monotonic_s(), until)
        return Taken(int(now * appends), int(now * size), now * sync_s)

    throttle = Throttle(scheduler, 1e12, taken)
    for _ in range(chunks):
        throttle(MIB)
        clock.advance(1_000 / mib_s)
    return clock.monotonic_s() * mib_s / chunks


def test_a_compaction_beside_nothing_never_rests():
    assert slowdown() == pytest.approx(1)


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param({"appends": 100, "size": 100 * 100}, id="100 records a second"),
        pytest.param({"appends": 100, "size": 100 * 1_000}, id="100 records of 1,000 bytes"),
        pytest.param({"appends": 1, "size": 100_000}, id="a batch a second"),
        pytest.param({"appends": 1, "size": 1_000, "sync_s": 0.005}, id="a synced record a second"),
    ],
)
def test_a_trickle_of_appends_hardly_slows_a_compaction(taken):
    assert slowdown(**taken) < 1.1


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param({"appends": 67_000, "size": 67_000 * 10_000}, id="batches of 100 records"),
        pytest.param({"appends": 160_000, "size": 160_000 * 170}, id="single records"),
        pytest.param({"appends": 20_000, "size": 20_000 * 170}, id="single records on a slow machine"),
        pytest.param({"appends": 20, "size": 250 * MIB}, id="large batches, as fast as the disk takes them"),
        pytest.param({"appends": 20, "size": 20 * MIB, "mib_s": 20.0}, id="on a slow disk"),
        pytest.param({"appends": 200, "size": 200 * 170, "sync_s": 0.99}, id="each one synced"),
    ],
)
def test_a_compaction_leaves_appends_at_full_speed_eleven_twelfths_of_the_time(taken):
    assert slowdown(**taken) == pytest.approx(REST + 1, rel=0.1)


def test_a_compaction_rests_by_the_share_of_the_time_that_appends_take():
    tenth, half = slowdown(2_000), slowdown(10_000)
    assert tenth == pytest.approx(1 + REST / 10, rel=0.05)
    assert half == pytest.approx(1 + REST / 2, rel=0.05)


def test_a_compaction_is_fast_again_when_the_appends_have_ended():
    # 0.1 s of appends, and less than a second more that they count for.
    assert slowdown(67_000, 670 * MIB, until=0.1, chunks=5_000) < 1.1


def test_long_syncs_count_for_all_of_their_time():
    clock = ManualClock()
    scheduler = Scheduler(clock, "here")
    # Each is counted when it ends, long after the chunk that it was begun in.
    throttle = Throttle(scheduler, 1e12, lambda: Taken(0, 0, clock.monotonic_s() // 0.3 * 0.3))
    for _ in range(1_000):
        throttle(MIB)
        clock.advance(4)
    assert clock.monotonic_s() / 4 == pytest.approx(REST + 1, rel=0.1)


def test_looks_at_the_appends_of_very_many_logs_cost_a_compaction_little():
    clock = ManualClock()
    looks = []

    def taken():
        clock.advance(20)  # as of 10,000 open logs
        looks.append(clock.monotonic_s())
        return Taken(0, 0, 0.0)

    throttle = Throttle(Scheduler(clock, "here"), 1e12, taken)
    for _ in range(1_000):
        throttle(MIB)
        clock.advance(4)
    assert sum(0.02 for _ in looks) < 0.03 * clock.monotonic_s()


def test_a_log_that_is_closed_meanwhile_counts_for_nothing():
    clock = ManualClock()
    scheduler = Scheduler(clock, "here")
    sums = iter([Taken(90, MIB, 9.0), Taken(100, 2 * MIB, 10.0), Taken(0, 0, 0.0), Taken(0, 0, 0.0)])
    throttle = Throttle(scheduler, 1e12, lambda: next(sums))
    for _ in range(2):
        throttle(MIB)
        clock.advance(2_000)
    before = clock.monotonic_s()
    throttle(MIB)
    throttle(MIB)
    assert clock.monotonic_s() == before


def test_a_store_compacts_on_beside_a_trickle_to_another_topic(tmp_path, clock, monkeypatch):
    """Each chunk takes 5 ms of the clock, and 100 records a second come in, while it works and while it rests."""
    honest, chunks = Throttle.__call__, []

    def throttle(self, byte_count):
        chunks.append(byte_count)
        clock.advance(5)
        while trickle[0].log_end_offset < (clock.monotonic_s() - begun_s) * 100:
            trickle.append(b"%100d" % 1)
        honest(self, byte_count)

    monkeypatch.setattr(Throttle, "__call__", throttle)
    with open_store(tmp_path, clock, **{"logstore.housekeeping": "manual"}) as store:
        topic = store.create_topic("latest", 1, {"cleanup.policy": "compact", "segment.bytes": 500})
        fill(topic, 400)
        trickle = store.create_topic("trickle")
        begun_s = clock.monotonic_s()
        store.housekeep()
        assert len(chunks) > 100
        assert trickle[0].log_end_offset > 50
        assert clock.monotonic_s() - begun_s < 1.1 * 0.005 * len(chunks)


def test_a_log_says_what_appends_have_taken(tmp_path, clock, monkeypatch):
    honest = flush.sync_unless_dropped

    def slow(segment):
        clock.advance(20)
        honest(segment)

    monkeypatch.setattr(flush, "sync_unless_dropped", slow)
    with open_store(tmp_path, clock) as store:
        log = store.create_topic("flights")[0]
        assert log.maintenance.taken == Taken(0, 0, 0.0)
        log.append([b"one", b"two"])
        log.append([b"three"])
        assert log.maintenance.taken == Taken(2, log.metrics().counters["appended_bytes"], 0.0)
        log.flush()
        assert log.maintenance.taken.sync_s == pytest.approx(0.02)


def test_closing_ends_a_long_task_in_its_middle(tmp_path):
    scheduler = Scheduler(logstore.clock.SYSTEM_CLOCK, "here")
    throttle = Throttle(scheduler, 1.0)
    begun, ended = threading.Event(), []

    def task():
        begun.set()
        try:
            throttle(1_000_000)
        except Interrupted:
            ended.append("interrupted")
            raise

    scheduler.add("long", 0, task)
    scheduler.start()
    assert begun.wait(300)
    scheduler.close()
    assert ended == ["interrupted"]


def test_closing_a_store_ends_its_compaction_and_nothing_is_lost(tmp_path, monkeypatch):
    begun = threading.Event()
    honest = Throttle.__call__

    def throttle(self, byte_count):
        begun.set()
        honest(self, byte_count)

    monkeypatch.setattr(Throttle, "__call__", throttle)
    settings = {"log.cleaner.io.max.bytes.per.second": 1, "log.cleaner.backoff.ms": 1}
    with open_store(tmp_path, **settings) as store:
        topic = store.create_topic("latest", 1, {"cleanup.policy": "compact", "segment.bytes": 500})
        fill(topic, 40)
        hasten(store._host.scheduler, "compaction")
        assert begun.wait(300)
    with open_store(tmp_path, **{"logstore.housekeeping": "manual"}) as store:
        assert list(store["latest"].scan())[-1].offset == 39
        store.housekeep()
        assert len(list(store["latest"].scan())) < 12


def test_a_topic_that_goes_while_it_is_worked_on_is_passed_over(tmp_path, clock, monkeypatch, caplog):
    with open_store(tmp_path, clock) as store:
        for name in ("first", "second", "third"):
            store.create_topic(name).append(b"one")
        honest = LogMaintenance.retain

        def retain(log):
            if "second" in store:
                store.delete_topic("second")
                store.delete_topic("first")
            return honest(log)

        monkeypatch.setattr(LogMaintenance, "retain", retain)
        store.housekeep()
        assert store.topics() == ["third"]
        assert "passes over" not in caplog.text


def test_a_pause_keeps_every_task_from_running():
    scheduler = Scheduler(ManualClock(), "here")
    calls = []
    scheduler.add("task", 1, lambda: calls.append(1))
    worker = threading.Thread(target=scheduler.run_all)
    with scheduler.paused():
        worker.start()
        worker.join(0.05)
        assert calls == []
    worker.join(300)
    assert calls == [1]


def test_closing_is_not_held_up_by_partitions_that_are_still_to_be_opened(tmp_path, clock, monkeypatch):
    with open_store(tmp_path, clock) as store:
        topic = store.create_topic("flights", 20, retention_ms=7 * DAY_MS)
        for partition in range(20):
            fill(topic, partition=partition)
    clock.advance(8 * DAY_MS)
    store = open_store(tmp_path, clock)
    opened = []

    def get(partitions, name):
        opened.append(name)
        # As if another thread had begun to close the store.
        store._host.scheduler._stopping = True
        raise StorageError("not now")

    monkeypatch.setattr("logstore.store.catalog.partitions.Partitions.get", get)
    tasks = MaintenanceTasks(
        store._host.topics_table, store._host.partitions, None, store._host.config, store._host.scheduler
    )
    with pytest.raises(Interrupted):
        tasks.retain()
    assert len(opened) == 1
    monkeypatch.undo()
    store.close()
