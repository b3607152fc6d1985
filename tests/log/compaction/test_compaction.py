"""A compacted log holds the newest record of every key, whatever else is going on in it."""

from __future__ import annotations

import gc
import random
import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore import Codec, Log
from logstore.batch._offset_map import SLOT_BYTES, KeyMap, allocated_bytes
from logstore.errors import (
    CorruptRecordError,
    DiskFullError,
    InvalidRecordError,
    InvalidSettingError,
    LogClosedError,
    OutOfOrderSequenceError,
    PolicyViolationError,
    ReadOnlyError,
)
from logstore.log import Marker, ProducerStamp
from logstore.log.append import append as append_module
from logstore.log.compaction import compaction, segment_swap
from logstore.log.formats.transaction_index import encode as encode_aborted
from logstore.log.maintenance import LogMaintenance
from logstore.log.read.live_reader import LogReader
from logstore.log.state import State
from logstore.log.transactions import Transactions
from logstore.records import AbortedTransaction
from logstore.testing import ManualClock, SimDisk
from tests.crash.histories import quick_files
from tests.log.keyed import DELETE_RETENTION_MS, SETTINGS, Keyed, check, committed, kept
from tests.log.logs import forget_sums, log_files, one_batch, open_log

pytestmark = pytest.mark.row("R3")


def opened(root, clock=None, **more) -> Log:
    return open_log(root, clock=clock or ManualClock(), **{**SETTINGS, **more})


def keyed(root, seed=1, keys=12, **more) -> Keyed:
    clock = ManualClock()
    return Keyed(opened(root, clock, **more), clock, random.Random(seed), keys)


def pairs(log) -> list[tuple]:
    return [(record.offset, record.key, record.value) for record in log.scan()]


def test_of_each_key_the_newest_record_stays_with_its_offset(tmp_path):
    history = keyed(tmp_path)
    for _ in range(150):
        history.append(3)
    history.log.maintenance.roll()
    done = history.compact()
    assert done.is_complete
    assert done.first_dirty_offset == history.log.log_end_offset == 450
    assert done.bytes_kept < done.bytes_read / 5
    newest = {record.key: record for part in history.parts for record in part.records}
    assert kept(history.log.scan()) == sorted(newest.values())
    assert (done.records_read, done.records_kept) == (450, len(newest))
    check(history.log, history.parts, history.runs)
    with Log.open(history.log.path, read_only=True) as reader:
        assert kept(reader.scan()) == sorted(newest.values())
    history.log.close()
    with opened(tmp_path) as again:
        assert again.maintenance.was_clean
        assert kept(again.scan()) == sorted(newest.values())
        assert again.maintenance.cleanable().first_dirty_offset == 450


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([2, 5, 40, 10_000]), st.sampled_from([1, 3, 30]))
def test_whatever_is_written_and_however_often_it_is_compacted(seed, slots, keys):
    """With producers, transactions, every codec, maps that are too small, closings, kills and time that passes."""
    rng, clock, disk = random.Random(seed), ManualClock(), SimDisk(seed)
    path = f"/{seed}/t-0"
    history = Keyed(Log.open(path, files=disk, clock=clock, **SETTINGS), clock, rng, keys)
    abandoned = []
    for _ in range(rng.randrange(2, 5)):
        for _ in range(rng.randrange(30)):
            history.step()
        if rng.random() < 0.6:
            history.settle()
        if rng.random() < 0.7:
            history.log.maintenance.roll()
        if rng.random() < 0.5:
            clock.advance(rng.choice([1, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS + 1]))
        end = history.log.maintenance.cleanable().end_offset
        done = history.compact(map_bytes=slots * SLOT_BYTES)
        assert done.is_complete
        assert done.first_dirty_offset == end
        check(history.log, history.parts, history.runs)
        ended = rng.random()
        if ended < 0.25:
            history.log.close()
        elif ended < 0.5:
            abandoned.append(history.log)
            disk = disk.kill()
        else:
            continue
        history.log = Log.open(path, files=disk, clock=clock, **SETTINGS)
        check(history.log, history.parts, history.runs)
        for producer_id, sequence in history.sequences.items():
            # The header of a producer's last batch is left, so its next sequence is known.
            with pytest.raises(OutOfOrderSequenceError):
                history.log.append(
                    [(b"k", b"v")], producer=ProducerStamp(producer_id, 0, sequence + 1, producer_id >= 20)
                )
    for log in (*abandoned, history.log):
        log.close()


def test_the_maps_of_all_rounds_together_are_never_larger_than_one_may_be(tmp_path, monkeypatch):
    """Counted whenever a map is made and whenever bytes are read or written; the cyclic collector is off."""
    most, seen = 100 * SLOT_BYTES, []

    def made(size, secret):
        made_map = KeyMap(size, secret)
        seen.append(allocated_bytes() - before)
        return made_map

    log = opened(tmp_path, segment_bytes=20_000)
    for first in range(0, 1_000, 10):
        log.append([(b"key-%d" % n, b"value", 1_000) for n in range(first, first + 10)])
    log.maintenance.roll()
    monkeypatch.setattr(compaction, "KeyMap", made)
    gc.collect()
    before = allocated_bytes()
    gc.disable()
    try:
        done = log.maintenance.compact(map_bytes=most, throttle=lambda _: seen.append(allocated_bytes() - before))
        left = allocated_bytes() - before
    finally:
        gc.enable()
    assert (done.rounds, done.is_complete, done.records_kept) == (12, True, done.records_read)
    assert len(list(log.scan())) == 1_000
    assert max(seen) == most
    assert left == 0
    log.close()


def test_a_map_that_one_batch_does_not_fit_is_given_back_before_a_larger_one_is_made(tmp_path, monkeypatch):
    alive = []

    def made(size, secret):
        alive.append(allocated_bytes() - before)
        return KeyMap(size, secret)

    log = opened(tmp_path, segment_bytes=20_000)
    log.append([(b"key-%d" % n, b"value", 1_000) for n in range(100)])
    log.maintenance.roll()
    monkeypatch.setattr(compaction, "KeyMap", made)
    gc.collect()
    before = allocated_bytes()
    assert log.maintenance.compact(map_bytes=10 * SLOT_BYTES).is_complete
    assert alive == [0] * 5
    log.close()


def test_a_second_pass_over_a_clean_log_changes_nothing(tmp_path):
    history = keyed(tmp_path, segment_bytes=100_000)
    for _ in range(50):
        history.append(2)
    history.log.maintenance.roll()
    history.compact()
    before = {base: path.read_bytes() for base, path in log_files(history.log).items()}
    generation = history.log._state.segments.generation
    history.compact()
    assert {base: path.read_bytes() for base, path in log_files(history.log).items()} == before
    assert history.log._state.segments.generation == generation
    history.log.close()


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_its_codec_offsets_and_sequence(tmp_path, codec):
    with opened(tmp_path) as log:
        log.append(
            [(b"a", b"1" * 50), (b"b", b"2" * 50), (b"c", b"3" * 50)], codec=codec, producer=ProducerStamp(7, 0, 0)
        )
        log.append([(b"b", b"new")])
        log.maintenance.roll()
        log.maintenance.compact()
        first = log.read(0).batches()[0]
        assert (first.base_offset, first.last_offset, len(first)) == (0, 2, 2)
        assert (first.codec, first.base_sequence, first.last_sequence) == (codec, 0, 2)
        assert pairs(log) == [(0, b"a", b"1" * 50), (2, b"c", b"3" * 50), (3, b"b", b"new")]


# --- tombstones ---------------------------------------------------------------------------------


def test_a_tombstone_stays_for_delete_retention_ms_after_a_compaction_has_met_it(tmp_path):
    clock = ManualClock()
    with opened(tmp_path, clock) as log:
        log.append([(b"a", b"1")])
        log.append([(b"a", None), (b"b", b"2")])
        log.maintenance.roll()
        clock.advance(10 * DELETE_RETENTION_MS)
        log.maintenance.compact()
        assert pairs(log) == [(1, b"a", None), (2, b"b", b"2")]
        (batch,) = [b for b in log.read(0).batches() if len(b)]
        assert batch.delete_horizon_ms == clock.now_ms() + DELETE_RETENTION_MS
        clock.advance(DELETE_RETENTION_MS - 1)
        assert not log.maintenance.cleanable().is_due
        log.maintenance.compact()
        assert (1, b"a", None) in pairs(log)
        clock.advance(1)
        assert log.maintenance.cleanable().is_due
        log.maintenance.compact()
        assert pairs(log) == [(2, b"b", b"2")]
        assert not log.maintenance.cleanable().is_due


def test_a_tombstone_goes_only_with_the_values_before_it(tmp_path):
    """Were it dropped while an older value is still there, the key would come back."""
    clock = ManualClock()
    with opened(tmp_path, clock, segment_bytes=200) as log:
        for n in range(20):
            log.append([(b"a", b"%d" % n)])
        log.append([(b"a", None)])
        log.maintenance.roll()
        for _ in range(4):
            log.maintenance.compact(map_bytes=2 * SLOT_BYTES)
            assert pairs(log) in ([(20, b"a", None)], [])
            clock.advance(DELETE_RETENTION_MS)
        assert pairs(log) == []
        # The offsets go on, and the log still says where it ends.
        assert log.append([(b"a", b"again")]).first_offset == 21
        assert pairs(log) == [(21, b"a", b"again")]


# --- transactions and producers -----------------------------------------------------------------


def transaction(log, producer_id, marker, *records) -> None:
    sequence = log._state.transactions.producers.get(producer_id)
    stamp = ProducerStamp(producer_id, 0, 0 if sequence is None else sequence.next_sequence, True)
    log.append(list(records), producer=stamp)
    log.replica.append_control(marker, producer_id=producer_id, producer_epoch=0)


def test_aborted_records_go_and_replace_nothing(tmp_path):
    with opened(tmp_path) as log:
        log.append([(b"a", b"kept")])
        transaction(log, 5, Marker.ABORT, (b"a", b"aborted"), (b"b", b"aborted"))
        transaction(log, 6, Marker.COMMIT, (b"c", b"committed"))
        log.maintenance.roll()
        log.maintenance.compact()
        assert pairs(log) == [(0, b"a", b"kept"), (4, b"c", b"committed")]
        assert [r.value for r in log.scan(isolation="read_committed")] == [b"kept", b"committed"]


def test_markers_stay_while_a_batch_of_their_transaction_does_and_then_for_a_horizon(tmp_path):
    clock = ManualClock()
    with opened(tmp_path, clock, segment_bytes=100_000) as log:
        transaction(log, 5, Marker.ABORT, (b"a", b"1"))
        transaction(log, 6, Marker.COMMIT, (b"b", b"1"))
        for producer_id in (5, 6):
            # Newer batches, so that the old ones are no producer's last.
            transaction(log, producer_id, Marker.COMMIT, (b"x%d" % producer_id, b"1"))
        log.append([(b"b", b"2")])
        log.maintenance.roll()

        def markers() -> list:
            return [batch for run in log.scan().chunks() for batch in run.batches() if batch.is_control]

        log.maintenance.compact()
        assert [m.base_offset for m in markers()] == [1, 3, 5, 7]  # the aborted batch and the replaced one were met
        log.maintenance.compact()
        assert [m.base_offset for m in markers()] == [1, 3, 5, 7]  # none was met: they have a horizon now
        horizons = [marker.delete_horizon_ms for marker in markers()]
        assert horizons == [clock.now_ms() + DELETE_RETENTION_MS] * 2 + [None] * 2
        clock.advance(DELETE_RETENTION_MS)
        log.maintenance.compact()
        assert [m.base_offset for m in markers()] == [5, 7]
        assert [r.value for r in log.scan(isolation="read_committed")] == [b"1", b"1", b"2"]


def test_nothing_above_the_last_stable_offset_is_compacted(tmp_path):
    with opened(tmp_path, segment_bytes=150) as log:
        for n in range(5):
            log.append([(b"a", b"%d" % n)])
        log.append([(b"a", b"open")], producer=ProducerStamp(5, 0, 0, True))
        for n in range(5):
            log.append([(b"a", b"late%d" % n)])
        log.maintenance.roll()
        assert log.maintenance.cleanable().end_offset <= 5
        done = log.maintenance.compact()
        assert done.first_dirty_offset <= 5
        assert [offset for offset, *_ in pairs(log)][-6:] == list(range(5, 11))
        log.replica.append_control(Marker.COMMIT, producer_id=5, producer_epoch=0)
        log.maintenance.roll()
        log.maintenance.compact()
        assert pairs(log) == [(10, b"a", b"late4")]


def test_a_producer_that_has_lost_all_its_records_goes_on_where_it_was(tmp_path):
    with opened(tmp_path) as log:
        log.append([(b"a", b"1"), (b"b", b"2")], producer=ProducerStamp(7, 3, 0))
        log.append([(b"a", b"3"), (b"b", b"4")])
        log.maintenance.roll()
        log.maintenance.compact()
        assert [len(b) for b in log.read(0).batches()] == [0, 2]
        path = log.path
        again = Log.open(path, read_only=True)
        assert kept(again.scan()) == kept(log.scan())
        again.close()
    for name in (tmp_path / "t-0").glob("*.snapshot"):
        name.unlink()
    (tmp_path / "t-0" / "logstore.producers").unlink()
    with opened(tmp_path) as log:
        with pytest.raises(OutOfOrderSequenceError):
            log.append([(b"a", b"?")], producer=ProducerStamp(7, 3, 3))
        assert log.append([(b"a", b"5")], producer=ProducerStamp(7, 3, 2)).first_offset == 4


# --- when and how much --------------------------------------------------------------------------


def test_a_log_is_due_by_its_dirty_ratio(tmp_path):
    with opened(tmp_path, min_cleanable_dirty_ratio=0.5, segment_bytes=200) as log:
        assert not log.maintenance.cleanable().is_due
        for n in range(20):
            log.append([(b"%d" % n, b"v" * 40)])
        log.maintenance.roll()
        look = log.maintenance.cleanable()
        assert (look.first_dirty_offset, look.end_offset, look.dirty_ratio, look.is_due) == (0, 20, 1.0, True)
        log.maintenance.compact()
        assert log.maintenance.cleanable().dirty_ratio == 0
        for n in range(20):
            log.append([(b"%d" % n, b"v" * 40)])
            look = log.maintenance.cleanable()
            assert look.dirty_ratio == look.dirty_bytes / max(look.clean_bytes + look.dirty_bytes, 1)
            assert look.is_due == (look.dirty_ratio > 0.5)


def test_what_is_young_is_not_compacted_and_what_is_late_is_due(tmp_path):
    clock = ManualClock()
    with opened(
        tmp_path, clock, min_compaction_lag_ms=1_000, max_compaction_lag_ms=5_000, min_cleanable_dirty_ratio=1.0
    ) as log:
        log.append([(b"a", b"1")])
        log.append([(b"a", b"2")])
        log.maintenance.roll()
        assert log.maintenance.cleanable().end_offset == 0
        log.maintenance.compact()
        assert len(pairs(log)) == 2
        clock.advance(1_000)
        assert (log.maintenance.cleanable().end_offset, log.maintenance.cleanable().is_due) == (2, False)
        clock.advance(4_001)
        assert log.maintenance.cleanable().is_due
        log.maintenance.compact()
        assert pairs(log) == [(1, b"a", b"2")]


def test_max_compaction_lag_rolls_an_active_segment(tmp_path):
    clock = ManualClock()
    with opened(tmp_path, clock, max_compaction_lag_ms=5_000) as log:
        log.append([(b"a", b"1")])
        clock.advance(5_001)
        log.append([(b"a", b"2")])
        assert log.metrics().segment_count == 2


def test_segments_become_one_up_to_their_limits(tmp_path):
    history = keyed(tmp_path, segment_bytes=600, keys=200)
    for _ in range(60):
        history.append(4)
    history.log.maintenance.roll()
    history.compact()
    history.compact()
    segments = history.log._state.segments.all[:-1]
    assert all(segment.size <= 600 for segment in segments)
    assert all(a.size + b.size > 600 for a, b in pairwise(segments))
    # End to end, as they were: the last batch of each is there, if only its header.
    for segment, after in zip(segments, history.log._state.segments.all[1:], strict=True):
        assert [last for _, last, *_ in segment.index.headers()][-1] + 1 == after.base_offset
    check(history.log, history.parts, history.runs)
    history.log.close()


def test_a_map_that_holds_not_even_one_batch_grows_to_it(tmp_path):
    with opened(tmp_path, segment_bytes=10_000) as log:
        log.append([(b"%d" % n, b"v") for n in range(100)], codec=Codec.ZSTD)
        log.append([(b"%d" % n, b"w") for n in range(50, 150)])
        log.maintenance.roll()
        done = log.maintenance.compact(map_bytes=2 * SLOT_BYTES)
        assert done.rounds >= 2
        assert [(r.key, r.value) for r in log.scan()] == [
            *((b"%d" % n, b"v") for n in range(50)),
            *((b"%d" % n, b"w") for n in range(50, 150)),
        ]


def test_a_batch_larger_than_what_is_read_at_once_is_compacted(tmp_path):
    large = random.Random(1).randbytes(3 << 20)
    with opened(tmp_path, segment_bytes=64 << 20, max_message_bytes=16 << 20) as log:
        log.append([(b"a", b"1"), (b"b", large)])
        log.append([(b"a", large)], codec=Codec.LZ4)
        log.append([(b"c", b"3")])
        log.maintenance.roll()
        log.maintenance.compact()
        assert [(o, k, len(v)) for o, k, v in pairs(log)] == [(1, b"b", 3 << 20), (2, b"a", 3 << 20), (3, b"c", 1)]


def test_the_throttle_hears_of_every_byte(tmp_path):
    history = keyed(tmp_path)
    for _ in range(30):
        history.append(2)
    history.log.maintenance.roll()
    size = history.log.metrics().size
    heard: list[int] = []
    done = history.compact(throttle=heard.append)
    assert sum(heard) == 2 * size + done.bytes_kept
    history.log.close()


def test_keyless_records_go_as_in_kafka_and_are_counted(tmp_path):
    with opened(tmp_path, cleanup_policy="delete") as log:
        log.append([b"no key", (b"a", b"1")])
    with opened(tmp_path, drop_keyless=True) as log:
        log.maintenance.roll()
        assert log.maintenance.compact().keyless_records == 1
        assert pairs(log) == [(1, b"a", b"1")]


# --- records without a key ----------------------------------------------------------------------


def test_a_log_with_keyless_records_is_not_opened_as_a_compacted_one_until_that_is_confirmed(tmp_path):
    with opened(tmp_path, cleanup_policy="delete") as log:
        log.append([(b"a", b"1")] * 3)
        log.append([(b"b", b"2"), b"no key"])
    for _ in range(2):
        with pytest.raises(PolicyViolationError, match=r"the first at offset 4.*drop_keyless=True"):
            opened(tmp_path)
    with opened(tmp_path, cleanup_policy="delete") as log:
        log.delete_before(5)
        log.append([(b"c", b"3")])
    # What was deleted counts no more, though its batch is still there.
    opened(tmp_path).close()


def test_keys_are_looked_for_once_and_again_after_the_log_was_not_compacted(tmp_path, monkeypatch):
    with opened(tmp_path, cleanup_policy="delete") as log:
        log.append([(b"a", b"1")])
    looks = []
    look = LogMaintenance.check_keys
    monkeypatch.setattr(LogMaintenance, "check_keys", lambda log: looks.append(log) or look(log))
    for _ in range(2):
        with opened(tmp_path) as log:
            log.append([(b"a", b"2")])
    assert len(looks) == 1
    with opened(tmp_path) as log:
        log.maintenance.reconfigure({**SETTINGS, "cleanup_policy": "delete"})
        log.append([b"no key"])
    with pytest.raises(PolicyViolationError, match="offset 3"):
        opened(tmp_path)
    with opened(tmp_path, cleanup_policy="delete") as log, pytest.raises(PolicyViolationError, match="offset 3"):
        log.maintenance.reconfigure(SETTINGS)


@pytest.mark.parametrize("settings", [{}, {"logstore.visible.after": "flush"}, {"logstore.tail": "memory"}])
def test_an_append_without_a_key_beside_the_change_is_either_refused_or_refuses_the_change(
    tmp_path, monkeypatch, settings
):
    """The append has been looked at as one of a log that deletes, and comes before, inside or behind the change."""
    settings = {**SETTINGS, "cleanup_policy": "delete", **settings}
    with opened(tmp_path, **settings) as log:
        compacted = {**settings, "cleanup_policy": "compact"}
        log.append([(b"a", b"1")])
        change = State.reconfigure

        def after_an_append(state, config):
            monkeypatch.setattr(State, "reconfigure", change)
            log.append([b"no key"])
            change(state, config)

        monkeypatch.setattr(State, "reconfigure", after_an_append)
        with pytest.raises(PolicyViolationError, match="offset 1"):
            log.maintenance.reconfigure(compacted)
        assert not log.maintenance.config.compacts
        log.flush()
        log.delete_before(2)
        batch = one_batch([b"no key"])
        for where, name, append in (
            (State, "append", lambda: log.append([b"no key"])),
            (append_module, "locked", lambda: log.replica.append_batch(batch)),
        ):
            step = getattr(where, name)

            def before_an_append(*args, where=where, name=name, step=step):
                monkeypatch.setattr(where, name, step)
                log.maintenance.reconfigure(compacted)
                return step(*args)

            log.maintenance.reconfigure(settings)
            monkeypatch.setattr(where, name, before_an_append)
            with pytest.raises(InvalidRecordError, match="without key"):
                append()
        # Batches that were looked at long before.
        with pytest.raises(InvalidRecordError, match="without key"):
            log.replica.append_run(bytearray(batch), max_timestamp_ms=0)
        assert log.maintenance.config.compacts
        assert log.log_end_offset == 2
        log.append([(b"a", b"2")])
        log.replica.append_run(bytearray(one_batch([(b"a", b"3")])), max_timestamp_ms=0)
        assert log.log_end_offset == 4


# --- beside others ------------------------------------------------------------------------------


def test_appends_and_reads_go_on_meanwhile(tmp_path):
    """A writer, two readers and a compaction at once; no reader sees anything that was not sent."""
    # Syncs do nothing here: there is no crash, and the changes follow one another the faster.
    history = keyed(tmp_path, keys=40, segment_bytes=30_000, files=quick_files())
    log = history.log
    for _ in range(300):
        history.append(3)
    stop, errors = threading.Event(), []

    def guarded(act):
        def run():
            try:
                while not stop.is_set():
                    act()
            except BaseException as error:  # noqa: BLE001  whatever it is, the test has to see it
                errors.append(error)
                stop.set()

        return threading.Thread(target=run)

    def follow(source) -> None:
        """To the end as it is then: a key whose record went while this was on its way has a newer one."""
        newest = {record.key: record.offset for part in list(history.parts) for record in part.records}
        found, offset = [], 0
        while offset < source.log_end_offset:
            run = source.read(offset)
            found += kept(run)
            offset = run.next_offset
        sent = {record.offset: record for part in list(history.parts) for record in part.records}
        # Of the very last append the test may not know yet.
        assert all(sent.get(record.offset, record) == record for record in found)
        seen = {record.key: record.offset for record in found}
        assert all(seen[key] >= offset for key, offset in newest.items())

    reader = Log.open(log.path, read_only=True)

    threads = [
        guarded(lambda: history.append(2)),
        guarded(lambda: follow(log)),
        guarded(lambda: follow(reader)),
        guarded(lambda: log.record_at(5)),
    ]
    for thread in threads:
        thread.start()
    for _ in range(12):
        if stop.is_set():
            break
        log.maintenance.roll()
        log.maintenance.compact()
    stop.set()
    for thread in threads:
        thread.join()
    reader.close()
    assert not errors, errors
    log.close()


def test_a_reader_that_holds_an_old_tuple_reads_on(tmp_path):
    history = keyed(tmp_path)
    for _ in range(60):
        history.append(2)
    history.log.maintenance.roll()
    batches = history.log.scan(max_bytes=1).chunks()
    first = next(batches)
    held = history.log.replica.locate(0, max_bytes=1 << 20)
    before = held.read()
    history.compact()
    assert held.read() == before
    held.close()
    rest = [record for chunk in batches for record in chunk]
    assert kept(rest)[-1] == kept(history.log.scan())[-1]
    assert [r.offset for r in first] < [r.offset for r in rest]
    history.log.close()


@pytest.mark.parametrize("limit", [None, 16])
def test_a_reader_in_another_process_follows_through_every_swap(tmp_path, limit):
    """Its files change their bytes under their names: it sees that by the generation, and looks again."""
    from logstore.io._files import Files

    history = keyed(tmp_path, keys=60)
    files = Files() if limit is None else Files(descriptor_limit=limit)
    with Log.open(history.log.path, read_only=True, files=files) as reader:
        for round_number in range(6):
            for _ in range(40):
                history.append(2)
            if round_number % 2:
                assert kept(reader.scan()) == kept(history.log.scan())
            history.log.maintenance.roll()
            history.compact()
            assert kept(reader.scan()) == kept(history.log.scan())
            assert kept(reader.scan(isolation="read_committed")) == kept(history.log.scan())
            check_offsets = [record.offset for record in history.log.scan()]
            assert [o for o in range(history.log.log_end_offset) if reader.record_at(o)] == check_offsets
    history.log.close()


def test_a_committed_reader_in_another_process_never_sees_what_was_aborted(tmp_path):
    """The list of aborted transactions moves to another file together with the records."""
    history = keyed(tmp_path, keys=5, segment_bytes=400)
    with Log.open(history.log.path, read_only=True) as reader:
        for _ in range(12):
            for _ in range(6):
                history.step()
            history.settle()
            history.log.maintenance.roll()
            history.compact()
            visible = {record.offset for record in committed(history.parts)}
            assert {record.offset for record in reader.scan(isolation="read_committed")} <= visible
            assert kept(reader.scan(isolation="read_committed")) == kept(
                history.log.scan(isolation="read_committed")
            )
    history.log.close()


def committed_values_with_compactions_between(root, monkeypatch, beside: bool) -> set:
    """What a committed reader sees if the log is compacted after it has the bytes and before it has the list."""
    history = keyed(root, keys=3)
    log = history.log
    for _ in range(12):
        transaction(log, 5, Marker.ABORT, (b"a", b"aborted"))
        transaction(log, 6, Marker.COMMIT, (b"b", b"seen"))
    log.maintenance.roll()
    compactions, busy = [], []

    def compacting(look):
        def looked(*arguments):
            if not compactions and not busy:
                # The first takes the records, the second the list of their transactions.
                busy.append(True)
                compactions.extend([log.maintenance.compact(), log.maintenance.compact()])
                busy.clear()
            return look(*arguments)

        return looked

    reader = Log.open(log.path, read_only=True) if beside else log
    kind = LogReader if beside else Log
    monkeypatch.setattr(kind, "_aborted_between", compacting(kind._aborted_between))
    seen, offset = set(), 0
    while offset < reader.last_stable_offset:
        # Not by a scan, which holds what a compaction replaces.
        batches = reader.read(offset, isolation="read_committed", max_bytes=1)
        seen |= {record.value for record in batches}
        offset = batches.next_offset
    assert len(compactions) == 2
    reader.close()
    log.close()
    return seen


@pytest.mark.parametrize("beside", [False, True])
def test_a_compaction_between_the_records_and_the_list_of_what_was_aborted_shows_nothing(
    tmp_path, monkeypatch, beside
):
    assert committed_values_with_compactions_between(tmp_path, monkeypatch, beside) == {b"seen"}


def test_planted_a_list_of_another_moment_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(LogReader, "_is_as_in", lambda self, view: True)
    assert b"aborted" in committed_values_with_compactions_between(tmp_path, monkeypatch, True)


def test_planted_a_list_without_what_readers_still_hold_is_found(tmp_path, monkeypatch):
    def segments_replaced(self, base_offsets, listed):
        self._aborted[base_offsets[0]] = listed

    monkeypatch.setattr(Transactions, "segments_replaced", segments_replaced)
    monkeypatch.setattr(Log, "_is_as_in", lambda self, view: True)  # else the read is made again
    assert b"aborted" in committed_values_with_compactions_between(tmp_path, monkeypatch, False)


def test_a_truncation_meanwhile_ends_the_run_and_loses_nothing(tmp_path):
    history = keyed(tmp_path)
    for _ in range(100):
        history.append(2)
    history.log.maintenance.roll()
    log, cuts = history.log, []

    def cut(_count: int) -> None:
        if not cuts:
            cuts.append(log.replica.truncate_to(100))

    assert not log.maintenance.compact(throttle=cut).is_complete
    assert cuts == [100]
    assert log.maintenance.cleanable().first_dirty_offset == 0
    parts = [part for part in history.parts if part.last < 100]
    check(log, parts, [])
    assert not [name for name in (tmp_path / "t-0").iterdir() if name.suffix in (".cleaned", ".swap")]
    log.maintenance.compact()
    check(log, parts, [log._clock.now_ms()])
    log.close()


def test_a_truncation_lowers_what_counts_as_compacted(tmp_path):
    """What is appended in the place of the old records would else be taken for compacted."""
    with opened(tmp_path, segment_bytes=150) as log:
        for n in range(20):
            log.append([(b"a%d" % n, b"1")])
        log.maintenance.roll()
        log.maintenance.compact()
        assert log.maintenance.cleanable().first_dirty_offset == 20
        log.replica.truncate_to(5)
        for _ in range(15):
            log.append([(b"b", b"1")])
        log.maintenance.roll()
        assert log.maintenance.cleanable().first_dirty_offset == 5
    with opened(tmp_path, segment_bytes=150) as log:
        assert log.maintenance.cleanable().first_dirty_offset == 5
        log.maintenance.compact()
        assert [key for _, key, _ in pairs(log)] == [*(b"a%d" % n for n in range(5)), b"b"]


def test_a_deletion_meanwhile_ends_the_run(tmp_path):
    history = keyed(tmp_path)
    for _ in range(100):
        history.append(2)
    history.log.maintenance.roll()
    log = history.log
    asked: list[int] = []

    def delete(_count: int) -> None:
        if not asked:
            asked.append(log.delete_before(120))

    assert not log.maintenance.compact(throttle=delete).is_complete
    sent = [r for part in history.parts for r in part.records if r.offset >= 120]
    newest = {record.key: record for record in sent}
    assert set(newest.values()) <= set(kept(log.scan()))
    log.maintenance.compact()
    assert [r for r in kept(log.scan()) if r.offset >= 120] == sorted(newest.values())
    log.close()


def test_closing_ends_a_compaction_and_leaves_a_whole_log(tmp_path):
    history = keyed(tmp_path)
    for _ in range(100):
        history.append(2)
    history.log.maintenance.roll()
    log, closers = history.log, []

    def close(_count: int) -> None:
        if not closers:
            closers.append(threading.Thread(target=log.close))
            closers[0].start()
            while not log._state.closing:
                pass

    with pytest.raises(LogClosedError, match="closed during its compaction"):
        log.maintenance.compact(throttle=close)
    closers[0].join()
    with opened(tmp_path) as again:
        assert again.maintenance.was_clean
        check(again, history.parts, history.runs)


# --- bad input ----------------------------------------------------------------------------------


def test_a_log_that_is_not_compacted_is_refused(tmp_path):
    with opened(tmp_path, cleanup_policy="delete") as log:
        log.append([(b"a", b"1")])
        with pytest.raises(InvalidSettingError, match=r"cleanup\.policy.*not compacted"):
            log.maintenance.compact()
    with opened(tmp_path) as log:
        with pytest.raises(
            InvalidSettingError, match=r"dedupe\.buffer\.size: expected at least 48 bytes, found 10"
        ):
            log.maintenance.compact(map_bytes=10)
        assert log.maintenance.compact().rounds == 0
        with Log.open(log.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
            reader.maintenance.compact()
    with pytest.raises(LogClosedError):
        log.maintenance.compact()


def test_a_damaged_batch_marks_the_log_with_its_place_and_loses_nothing(tmp_path):
    history = keyed(tmp_path)
    for _ in range(60):
        history.append(2)
    history.log.maintenance.roll()
    files = log_files(history.log)
    victim = files[sorted(files)[3]]
    whole = victim.read_bytes()
    before = {base: path.read_bytes() for base, path in files.items()}
    victim.write_bytes(whole[:80] + bytes([whole[80] ^ 1]) + whole[81:])
    with pytest.raises(CorruptRecordError) as caught:
        history.compact()
    assert (caught.value.path, caught.value.position) == (str(victim), 0)
    look = history.log.maintenance.cleanable()
    assert str(victim) in look.cleaner_error
    assert not look.is_due
    victim.write_bytes(whole)
    assert {base: path.read_bytes() for base, path in log_files(history.log).items()} == before
    history.compact()
    assert history.log.maintenance.cleanable().cleaner_error is None
    check(history.log, history.parts, history.runs)
    history.log.close()


@pytest.mark.parametrize("marker", [Marker.ABORT, Marker.COMMIT])
@pytest.mark.parametrize("marker_behind", [False, True])
def test_an_aborted_index_that_says_otherwise_than_the_markers_drops_nothing(tmp_path, marker, marker_behind):
    """Kafka's has no checksum: lost, it would let an aborted record replace a good one; wrong, drop a good one."""
    with opened(tmp_path) as log:
        log.append([(b"a", b"good")])
        log.append([(b"a", b"decided")], producer=ProducerStamp(5, 0, 0, True))
        if marker_behind:
            log.maintenance.roll()
        log.replica.append_control(marker, producer_id=5, producer_epoch=0)
        if not marker_behind:
            log.maintenance.roll()
        log.append([(b"b", b"more")])
    forget_sums(tmp_path / "t-0")
    index = tmp_path / "t-0" / f"{2 if marker_behind else 0:020d}.txnindex"
    if marker is Marker.ABORT:
        index.unlink()
    else:
        index.write_bytes(encode_aborted([AbortedTransaction(5, 1, 2, 3)]))
    with opened(tmp_path) as log:
        before = {base: path.read_bytes() for base, path in log_files(log).items()}
        with pytest.raises(
            CorruptRecordError, match=r"producer 5 that ends at offset 2 .*txnindex.* says otherwise"
        ):
            log.maintenance.compact()
        assert "producer 5" in log.maintenance.cleanable().cleaner_error
        assert {base: path.read_bytes() for base, path in log_files(log).items()} == before


def test_without_space_the_old_segments_stay_and_it_is_done_again(tmp_path):
    disk, clock = SimDisk(1), ManualClock()
    log = Log.open("/full/t-0", files=disk, clock=clock, **SETTINGS | {"write_strategy": "extend"})
    history = Keyed(log, clock, random.Random(2), keys=100)
    for _ in range(60):
        history.append(2)
    history.log.maintenance.roll()
    log.flush()
    disk.capacity = disk.used_bytes + 300
    with pytest.raises(DiskFullError):
        history.compact()
    check(log, history.parts, [], first_dirty=0)
    assert not [name for name in disk.listdir("/full/t-0") if name.endswith((".cleaned", ".swap"))]
    disk.capacity = None
    history.append(2)
    history.compact()
    check(log, history.parts, history.runs)
    log.close()


def test_a_transaction_that_is_listed_no_more_speaks_for_no_later_one_after_a_cut(tmp_path):
    """Before, a cut brought an old list back, whose marker the next compaction took away."""
    clock = ManualClock()
    with opened(tmp_path, clock, segment_bytes=100_000, delete_retention_ms=0) as log:
        transaction(log, 5, Marker.ABORT, (b"a", b"aborted"))
        transaction(log, 5, Marker.COMMIT, (b"c", b"committed"))
        log.append([(b"z", b"z")], producer=ProducerStamp(5, 0, 2))
        for number in range(5):
            log.append([(b"x", b"%d" % number)])
            log.maintenance.roll()
            clock.advance(0.01)
            log.maintenance.compact()
            if number == 1:
                end = log.log_end_offset
                log.append([(b"y", b"cut off")])
                log.replica.truncate_to(end)
            found = {r.key: r.value for r in log.scan(isolation="read_committed")}
            assert found == {b"c": b"committed", b"z": b"z", b"x": b"%d" % number}, number


def test_what_was_looked_at_before_a_cut_is_not_compacted_after_it(tmp_path):
    with opened(tmp_path, segment_bytes=100_000) as log:
        log.append([(b"a", b"kept")])
        log.append([(b"b", b"1")])
        log.append([(b"b", b"2")])
        log.maintenance.roll()

        def cut_meanwhile(end: int) -> None:
            log.replica.truncate_to(1)
            log.append([(b"a", b"aborted")], producer=ProducerStamp(5, 0, 0, True))
            log.append([(b"b", b"3")])
            log.maintenance.roll()
            log.flush()

        assert not compaction.compact(log._state, cut_meanwhile).is_complete
        log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
        assert [r.value for r in log.scan(isolation="read_committed")] == [b"kept", b"3"]


def test_a_discarded_form_that_could_not_be_removed_costs_nothing_at_the_next_swap(monkeypatch):
    """After a crash in that swap it would have said that the new form is half made, and the old one was gone."""
    disk, more = SimDisk(1), {"cleanup_policy": "compact", "segment_bytes": 400}
    with Log.open("/data/t-0", files=disk, clock=ManualClock(), **more) as log:
        log.append([(b"only", b"x" * 300)])
        log.maintenance.roll()
        for number in range(6):
            log.append([(b"k", b"y" * 100)])
            log.append([(b"m%d" % number, b"live")])
        log.append([(b"k", b"last" + b"z" * 90)])
        log.maintenance.roll()
        log.flush()
        monkeypatch.setattr(segment_swap, "discard", lambda state, new: new.close())
        disk.keep_moments()
        log.maintenance.compact()
        assert disk.moment_count > 20
        for moment in disk.moments():
            with Log.open("/data/t-0", files=moment.crash("all"), clock=ManualClock(), **more) as after:
                assert len({record.key for record in after.scan()}) == 8
