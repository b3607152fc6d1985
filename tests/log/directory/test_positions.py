"""logstore.offset.mode=bytes: an offset is the number of bytes before it, through rolls, restarts, power cuts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import logstore
from logstore import Codec, Log
from logstore.batch._batch import BatchView
from logstore.errors import InvalidSettingError
from logstore.log import ProducerStamp
from logstore.records import Marker, Origin
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.log.logs import at, log_files, one_batch, values_of

pytestmark = pytest.mark.row("V1")

SETTINGS = {"offset_mode": "bytes", "segment_bytes": 1_000, "index_interval_bytes": 150}


def open_log(path, **options):
    return Log.open(Path(path) / "t-0", **{**SETTINGS, **options})


def stored(log) -> list[tuple[int, int, int]]:
    """(base offset, size, records) of every batch, by walking the files."""
    found = []
    for path in log_files(log).values():
        data = path.read_bytes()
        position = 0
        while position < len(data) and any(data[position : position + 12]):
            view = BatchView(
                data[position : position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")]
            )
            found.append((view.base_offset, view.size, view.record_count))
            position += view.size
    return found


def check_positions(log, first=0) -> None:
    """Every base offset is the number of bytes before it; a position in a file is a difference of offsets."""
    expected = first
    for base, size, _ in stored(log):
        assert base == expected
        expected += size
    for path in log_files(log).values():
        data, position = path.read_bytes(), 0
        begin = int.from_bytes(data[:8], "big")
        while position < len(data) and any(data[position : position + 12]):
            assert int.from_bytes(data[position : position + 8], "big") - begin == position
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")


def test_ids_are_the_sizes_before_them(tmp_path):
    """Sizes 20, 40 and 20 above the least that a batch can have: ids 0, then the first size, then the first two."""
    with open_log(tmp_path) as log:
        empty = len(one_batch([b""]))
        results = [log.append([b"v" * size]) for size in (20, 40, 20)]
        sizes = [empty + 20, empty + 40, empty + 20]
        assert [result.first_offset for result in results] == [0, sizes[0], sizes[0] + sizes[1]]
        assert all(result.last_offset == result.first_offset for result in results)
        assert log.log_end_offset == results[-1].last_offset + 1
        assert log.replica.next_offset == sum(sizes)
        check_positions(log)
        # Seeking without an index: the id leads to the bytes.
        (path,) = log_files(log).values()
        assert BatchView(path.read_bytes()[sizes[0] : sizes[0] + sizes[1]]).check().base_offset == sizes[0]


def test_rolls_and_restarts_count_on(tmp_path):
    rng = random.Random(4)
    sent = {}
    for _ in range(5):
        with open_log(tmp_path, clock=ManualClock()) as log:
            for _ in range(8):
                values = [rng.randbytes(rng.randrange(1, 90)) for _ in range(rng.randrange(1, 4))]
                due = log.replica.next_offset
                result = log.append(values)
                assert result.first_offset == due
                sent |= {result.first_offset + n: value for n, value in enumerate(values)}
            assert {record.offset: record.value for record in log.scan()} == sent
            check_positions(log)
    assert len(log_files(log)) > 3
    for path in Path(log.path).glob("*index"):
        path.unlink()
    with open_log(tmp_path) as log:
        for offset, value in sent.items():
            assert log.record_at(offset).value == value
            assert next(iter(log.read(offset))).value == value
        check_positions(log)


def test_an_id_between_two_leads_to_the_next(tmp_path):
    with open_log(tmp_path) as log:
        first, second = (log.append([value]).first_offset for value in (b"one", b"two"))
        for offset in range(first + 1, second + 1):
            assert next(iter(log.read(offset))).offset == second
        assert log.record_at(second - 1) is None
        assert [record.offset for record in log.scan(start=1)] == [second]


def test_an_append_of_several_batches_gives_each_its_own_place(tmp_path):
    with open_log(tmp_path, max_message_bytes=200) as log:
        log.append([b"first"])
        values = [b"%03d" % n * 20 for n in range(40)]
        result = log.append(values)
        batches = stored(log)[1:]
        assert len(batches) > 10
        assert result.first_offset == batches[0][0]
        assert result.last_offset == batches[-1][0] + batches[-1][2] - 1 == log.log_end_offset - 1
        assert values_of(log) == [b"first", *values]
        assert len(log_files(log)) > 3
        check_positions(log)


def test_no_batch_is_compressed_for_any_caller(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"v" * 200], codec=Codec.ZSTD)
        log.replica.append_batch(one_batch([b"w" * 200] * 3, codec=Codec.GZIP))
        second = log.append([b"x" * 200], codec=Codec.LZ4).first_offset
        codecs = [log.read(offset).batches()[0].codec for offset, *_ in stored(log)]
        assert codecs == [Codec.NONE] * 3
        assert second == stored(log)[2][0]
        check_positions(log)


def test_markers_and_producers_go_on(tmp_path):
    with open_log(tmp_path) as log:
        stamp = ProducerStamp(7, 0, 0, transactional=True)
        first = log.append([b"in"], producer=stamp)
        again = log.append([b"in"], producer=stamp)
        assert again == first._replace(duplicate=True)
        log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
        last = log.append([b"out"])
        assert [last.first_offset] == [base for base, *_ in stored(log)][2:]
        assert values_of(log, isolation="read_committed") == [b"out"]
        check_positions(log)


def test_a_truncation_gives_its_places_again(tmp_path):
    with open_log(tmp_path) as log:
        offsets = [log.append([b"v" * 50]).first_offset for _ in range(20)]
        for kept in (15, 9, 1, 0):
            assert log.replica.truncate_to(offsets[kept]) <= offsets[kept]
            assert log.append([b"w" * 50]).first_offset == offsets[kept]
            check_positions(log)


def test_after_a_deletion_ids_still_rise(tmp_path):
    with open_log(tmp_path) as log:
        offsets = [log.append([b"v" * 50]).first_offset for _ in range(30)]
        log.delete_before(offsets[12])
        assert log.append([b"v" * 50]).first_offset == offsets[-1] + offsets[1]
        log.delete_before(log.log_end_offset)
        last = log.append([b"next"])
        assert last.first_offset > offsets[-1] + offsets[1]
        assert log.append([b"x"]).first_offset > last.first_offset
    with open_log(tmp_path) as log:
        assert values_of(log) == [b"next", b"x"]


def test_a_replica_keeps_its_leaders_places(tmp_path):
    with open_log(tmp_path) as log:
        for base in (0, 500, 501):
            log.replica.append_batch(at(one_batch([b"%d" % base]), base), origin=Origin.REPLICATION)
        assert [base for base, *_ in stored(log)] == [0, 500, 501]


def test_a_log_may_change_its_mode(tmp_path):
    with open_log(tmp_path, offset_mode="logical") as log:
        log.append([b"v"] * 10)
        size = log.metrics().size
    with open_log(tmp_path) as log:
        assert log.append([b"p"]).first_offset == size
    with open_log(tmp_path, offset_mode="logical") as log:
        assert log.append([b"l"]).first_offset == size + 1


def test_an_open_log_may_change_its_mode(tmp_path):
    with open_log(tmp_path, offset_mode="logical") as log:
        log.append([b"v"] * 10)
        log.maintenance.reconfigure({**SETTINGS})
        size = log.metrics().size
        assert log.append([b"p"]).first_offset == size == log.replica.next_offset - (log.metrics().size - size)
        with pytest.raises(InvalidSettingError):
            log.maintenance.reconfigure({**SETTINGS, "cleanup_policy": "compact"})
        log.maintenance.reconfigure({**SETTINGS, "offset_mode": "logical"})
        assert log.append([b"l"]).first_offset == size + 1


def test_a_topic_may_have_it(tmp_path):
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("flights", 1, {"logstore.offset.mode": "bytes"})
        offsets = [topic.append(b"v" * size).offset for size in (20, 40, 20)]
        assert offsets == [0, *[base for base, *_ in stored(topic[0])[1:]]]
        check_positions(topic[0])
        for consumer in (store.consumer(group="crew", auto_offset_reset="earliest"), store.consumer()):
            consumer.assign_topics(["flights"])
            consumer.seek_to_beginning()
            assert [record.offset for record in consumer.records(timeout_s=0)] == offsets
            consumer.seek(("flights", 0), offsets[1] + 1)
            assert [record.offset for record in consumer.poll()] == offsets[2:]
        store.commit_offsets("crew", {topic[0].name: offsets[1]})
        assert [lag.records for lag in store.lag("crew")] == [2]
        store.consumer(group="crew").close()


def test_a_reader_beside_the_writer_follows(tmp_path):
    with open_log(tmp_path) as log:
        offset = log.append([b"0"]).first_offset
        with open_log(tmp_path, read_only=True) as reader:
            seen = []
            for n in range(1, 40):
                log.append([b"%d" % n * 30])
                # A read ends at a gap, so it brings one batch at a time.
                while batches := reader.read(offset):
                    seen += [record.value for record in batches]
                    offset = batches.next_offset
            assert seen == [b"0", *(b"%d" % n * 30 for n in range(1, 40))]
            assert reader.log_end_offset == log.log_end_offset


def test_it_goes_with_neither_compaction_nor_compression_nor_a_memory_tail(tmp_path):
    for settings in ({"cleanup_policy": "compact"}, {"compression_type": "zstd"}, {"tail": "memory"}):
        with pytest.raises(InvalidSettingError, match=r"logstore\.offset\.mode=bytes"):
            open_log(tmp_path, **settings)
    assert not (tmp_path / "t-0").exists()


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(4))
def test_every_power_cut_leaves_places_that_are_right(seed):
    """What is left is a prefix of what was sent, all that was synced, and the next batch goes behind its bytes."""
    rng, path, disk = random.Random(seed), f"/{seed}/t-0", SimDisk(seed)
    log = Log.open(path, files=disk, clock=ManualClock(), **SETTINGS)
    disk.keep_moments()
    sent: list[tuple[int, bytes]] = []  # one record a batch
    ever: dict[int, bytes] = {}
    promised: list[tuple[int, int]] = [(0, 0)]  # operations of the disk, batches that were synced by then
    for _ in range(25):
        if sent and rng.random() < 0.1:
            keep = rng.randrange(len(sent))
            log.replica.truncate_to(sent[keep][0])
            del sent[keep:]
            break
        value = rng.randbytes(rng.randrange(1, 200))
        before = log.replica.next_offset
        synced = rng.random() < 0.4
        assert log.append([value], ack="synced" if synced else "written").first_offset == before
        sent.append((before, value))
        ever[before] = value
        if synced:
            promised.append((disk.operations, len(sent)))
    states = set()
    for number, moment in enumerate(disk.moments(), 1):
        # What a truncation at the end has taken was no longer promised while it was under way.
        least = min(max(count for when, count in promised if when <= number), len(sent))
        for policy in POLICIES:
            after = moment.crash(policy, seed=rng.getrandbits(32), page_bytes=64)
            states.add(after.state_hash())
            with Log.open(path, files=after, clock=ManualClock(), **SETTINGS) as again:
                found = [(record.offset, record.value) for record in again.scan()]
                assert found == list(ever.items())[: len(found)]
                assert len(found) >= least
                next_offset = found[-1][0] + size_at(again, found[-1][0]) if found else 0
                assert again.append([b"on"], ack="synced").first_offset == next_offset
            with Log.open(path, files=after.crash("none"), clock=ManualClock(), **SETTINGS) as last:
                assert [(r.offset, r.value) for r in last.scan()] == [*found, (next_offset, b"on")]
    assert len(states) > 80
    log.close()


def size_at(log, offset: int) -> int:
    return log.read(offset, max_bytes=1).batches()[0].size
