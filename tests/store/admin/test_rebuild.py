"""A store whose catalogue is lost or damaged: refused, named, and made again from its directories."""

from __future__ import annotations

import errno
import itertools
import shutil
from pathlib import Path

import pytest

import logstore
from logstore import Log
from logstore.errors import (
    DamagedCatalogueError,
    DirectoryLockedError,
    LaterCatalogueError,
    LogstoreError,
    NotALogError,
    StorageError,
    TooManyFilesError,
)
from logstore.log import ProducerStamp
from logstore.log.directory import files
from logstore.records import TopicPartition
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog.topic_list import CATALOGUE, NEWEST, Catalogue
from logstore.testing import FaultyFiles, ManualClock, SimDisk

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
DAY_MS = 86_400_000


def open_store(path, clock=None, **options):
    return logstore.open(path, clock=clock or ManualClock(), environ={}, **options)


def tree(root):
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def root(tmp_path):
    """A store with a topic that keeps for ever, a compacted one and committed offsets; closed."""
    with open_store(tmp_path / "data") as store:
        kept = store.create_topic("kept", 3, retention_ms=-1, segment_bytes=500)
        for number in range(30):
            kept.append(b"record %d" % number, b"key %d" % number, partition=number % 3, timestamp=1)
        newest = store.create_topic("newest", cleanup_policy="compact")
        newest.append(b"value", b"key")
        store.commit_offsets("readers", {TopicPartition("kept", 0): 4})
    return tmp_path / "data"


def count(store, name="kept"):
    return [sum(1 for _ in log.scan()) for log in store[name].partitions]


def found(root, **options):
    return {finding.name for finding in diagnose(root, **options)}


@pytest.mark.parametrize("left", [(), ("meta.properties",), ("logstore.checkpoints",), ("partition.metadata",)])
@pytest.mark.parametrize("damage", ["removed", "emptied"])
def test_a_store_without_its_catalogue_does_not_open_and_is_left_as_it_is(root, left, damage):
    (root / CATALOGUE).unlink() if damage == "removed" else (root / CATALOGUE).write_bytes(b"")
    for name in left:
        for path in (root / name, *root.glob(f"*/{name}")):
            path.unlink(missing_ok=True)
    before = tree(root)
    for read_only in (False, True):
        with pytest.raises(DamagedCatalogueError, match=f"logstore rebuild --dir {root}"):
            open_store(root, read_only=read_only)
    assert found(root) & {"catalogue-missing", "catalogue-damaged"}
    assert tree(root) == before


def test_rebuilt_it_has_its_topics_and_deletes_nothing_until_its_user_says_so(root):
    with open_store(root, read_only=True) as store:
        ids = {name: store[name].id for name in store.topics(internal=True)}
        before = (store._host.cluster_id, count(store))
    (root / CATALOGUE).unlink()
    rebuilt = logstore.rebuild(root)
    assert (rebuilt.missing, rebuilt.damaged, rebuilt.kept_as) == ((), {}, "")
    clock = ManualClock(1_000 * DAY_MS)
    # Also where the store is opened with settings that would delete: the topics' own may have said otherwise.
    with open_store(root, clock, retention_ms=1, cleanup_policy="compact", min_cleanable_dirty_ratio=0) as store:
        assert {name: store[name].id for name in store.topics(internal=True)} == ids
        clock.advance(100 * DAY_MS)
        store.housekeep()
        assert (store._host.cluster_id, count(store)) == before
        assert store["__consumer_offsets"].config.cleanup_policy == "compact"
        name = TopicPartition("kept", 0)
        assert store.committed("readers", [name])[name].offset == 4
        store.alter_topic("kept", retention_ms=1_000)
        store.housekeep()
        assert count(store) < before[1]


def test_a_damaged_catalogue_is_kept_beside_the_new_one(root):
    whole = (root / CATALOGUE).read_bytes()
    (root / CATALOGUE).write_bytes(whole[:-20])
    rebuilt = logstore.rebuild(root)
    assert Path(rebuilt.kept_as).read_bytes() == whole[:-20]
    with open_store(root) as store:
        assert count(store) == [10, 10, 10]
    # And once more, after the first time.
    (root / CATALOGUE).write_bytes(b"")
    logstore.rebuild(root)
    with open_store(root) as store:
        assert count(store) == [10, 10, 10]


def test_producer_ids_are_above_all_that_stand_in_the_logs(root):
    with open_store(root) as store:
        store["kept"][0].append([b"one"], producer=ProducerStamp(7_654_321, 0, 0))
        given = store._host.next_producer_id()
    (root / CATALOGUE).unlink()
    logstore.rebuild(root)
    with open_store(root) as store:
        assert store._host.next_producer_id() > max(7_654_321, given)


def test_a_log_whose_offsets_are_positions_goes_on_as_one(tmp_path):
    with open_store(tmp_path / "data") as store:
        topic = store.create_topic("t", settings={"logstore.offset.mode": "bytes", "segment.bytes": 400})
        for number in range(20):
            topic.append(b"record %d" % number)
        end = topic[0].replica.next_offset
    (tmp_path / "data" / CATALOGUE).unlink()
    logstore.rebuild(tmp_path / "data")
    with open_store(tmp_path / "data") as store:
        assert store["t"].append(b"later").offset == end
        assert [record.value for record in store["t"][0].scan()][-2:] == [b"record 19", b"later"]


def test_damage_in_a_log_is_named_and_the_others_are_rebuilt(root):
    first = sorted((root / "kept-1").glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[16] = 0x7F  # the magic of the first batch
    first.write_bytes(data)
    (root / CATALOGUE).unlink()
    rebuilt = logstore.rebuild(root)
    assert list(rebuilt.damaged) == [TopicPartition("kept", 1)]
    assert first.name in rebuilt.damaged[TopicPartition("kept", 1)]
    with open_store(root) as store:
        assert sum(1 for _ in store["kept"][0].scan()) == 10
        # What stands in the bytes that cannot be read may be any id given out until now.
        assert store._host.next_producer_id() > 1 << 39


@pytest.mark.parametrize("op", ["open", "listdir"])
def test_a_file_that_cannot_be_opened_is_no_damage(root, op):
    """Else a process without descriptors would name whole logs as damaged, and skip the offsets and ids in them."""
    (root / CATALOGUE).unlink()
    left = tree(root)
    whole = FaultyFiles()
    shutil.copytree(root, copy := root.parent / "copy")
    logstore.rebuild(copy, files=whole)
    refused = 0
    for nth in range(1, whole.counts()[op] + 1):
        files = FaultyFiles()
        files.fail(op, nth, errno.EMFILE, times=-1)
        try:
            told = logstore.rebuild(root, files=files)
        except TooManyFilesError:
            refused += 1
            assert tree(root) == left
        else:
            # Of what comes behind the catalogue: the root is given back.
            assert not told.damaged
            (root / CATALOGUE).unlink()
    assert refused > whole.counts()[op] // 2
    files = FaultyFiles()
    files.fail("open", whole.counts()["open"] // 2, errno.EACCES)
    with pytest.raises(StorageError, match="denied"):
        logstore.rebuild(root, files=files)
    assert not logstore.rebuild(root).damaged


def test_bytes_that_the_disk_does_not_give_are_damage(root):
    (root / CATALOGUE).unlink()
    whole = FaultyFiles()
    shutil.copytree(root, copy := root.parent / "copy")
    logstore.rebuild(copy, files=whole)
    damaged = set()
    for nth in range(1, whole.counts()["preadv"] + 1):
        files = FaultyFiles()
        files.fail("preadv", nth, errno.EIO)
        try:
            damaged.update(logstore.rebuild(root, files=files).damaged)
        except StorageError:
            continue  # of the small files
        (root / CATALOGUE).unlink()
    assert TopicPartition("kept", 2) in damaged


def test_what_needs_no_rebuilding_is_refused_and_left_as_it_is(root, tmp_path):
    with open_store(root), pytest.raises(NotALogError, match="it is whole"):
        logstore.rebuild(root)
    empty = tmp_path / "empty"
    empty.mkdir()
    single = tmp_path / "single"
    Log.open(single / "t-0").close()
    kafkas = shutil.copytree(FIXTURES / "kafka-4.3.1", tmp_path / "kafka")
    for place in (empty, single, kafkas):
        before = tree(place)
        with pytest.raises(NotALogError, match="no store that has lost"):
            logstore.rebuild(place)
        assert tree(place) == before
    with pytest.raises(NotALogError, match="check the path"):
        logstore.rebuild(tmp_path / "nowhere")
    (root / CATALOGUE).unlink()
    (root / files.INCOMPLETE).write_bytes(b"")
    with pytest.raises(NotALogError, match="unfinished snapshot"):
        logstore.rebuild(root)


def test_a_catalogue_of_a_later_program_is_not_rebuilt_over(root):
    from logstore.batch._crc32c import crc32c

    body = Catalogue.load(files.Directory(root)).to_bytes().rsplit(b"crc32c", 1)[0]
    body = b"logstore topics 99\n" + body.split(b"\n", 1)[1]
    (root / CATALOGUE).write_bytes(body + b"crc32c %08x\n" % crc32c(body))
    before = tree(root)
    for call in (logstore.rebuild, open_store):
        with pytest.raises(LaterCatalogueError, match="later program"):
            call(root)
    assert tree(root) == before


def test_a_store_that_is_open_is_not_rebuilt(root):
    with open_store(root):
        (root / CATALOGUE).unlink()
        with pytest.raises(DirectoryLockedError):
            logstore.rebuild(root)


def test_partitions_of_two_topics_are_told_apart_before_anything_is_written(root):
    (root / CATALOGUE).unlink()
    (root / "kept-2" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
    before = tree(root)
    with pytest.raises(NotALogError, match="kept-2 "):
        logstore.rebuild(root)
    assert tree(root) == before


def test_single_logs_are_taken_in_as_they_are(tmp_path):
    """No store has been here, so none was lost."""
    with Log.open(tmp_path / "t-0") as log:
        log.append([b"one"])
    for read_only in (True, False, False):
        with open_store(tmp_path, read_only=read_only) as store:
            assert count(store, "t") == [1]


def test_an_older_catalogue_deletes_nothing_of_a_topic_it_does_not_know(root):
    older = (root / CATALOGUE).read_bytes()
    clock = ManualClock(1_000 * DAY_MS)
    with open_store(root, clock) as store:
        later = store.create_topic("later", settings={"retention.ms": -1, "segment.bytes": 500})
        for _ in range(30):
            later.append(b"x" * 50, timestamp=1)
    (root / CATALOGUE).write_bytes(older)
    (root / NEWEST).unlink()  # else it is refused
    with open_store(root, clock, retention_ms=1) as store:
        store.housekeep()
        assert count(store, "later") == [30]
        assert store["later"].id == later.id


def test_an_older_catalogue_removes_no_partitions_that_it_does_not_know(root):
    older = (root / CATALOGUE).read_bytes()
    with open_store(root) as store:
        store.add_partitions("kept", 4)
        store["kept"].append(b"in the new one", partition=3)
    (root / CATALOGUE).write_bytes(older)
    (root / NEWEST).unlink()  # else it is refused
    with open_store(root) as store:
        for total in (4, 5):
            with pytest.raises(NotALogError, match="kept-3"):
                store.add_partitions("kept", total)
        assert store["kept"].partition_count == 3
    with Log.open(root / "kept-3", read_only=True) as log:
        assert [record.value for record in log.scan()] == [b"in the new one"]
    assert "partition-unknown" in found(root)


# -- partitions


def _remove(directory):
    shutil.rmtree(directory)


def _empty(directory):
    for path in directory.iterdir():
        path.unlink()


def _lose_segments_and_mark(directory):
    for path in directory.iterdir():
        if path.name != "partition.metadata" and path.name != "logstore.published":
            path.unlink()


def consume(store):
    with store.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign_topics(["kept"])
        for _ in range(10):
            consumer.poll(timeout_s=0)


@pytest.mark.parametrize("rebuilding", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("damage", [_remove, _empty, _lose_segments_and_mark])
def test_a_partition_that_is_missing_is_never_made_again_empty(root, rebuilding, number, damage):
    lost = root / f"kept-{number}"
    damage(lost)
    if rebuilding:
        (root / CATALOGUE).unlink()
        # Of the highest that is gone nothing is left that could tell.
        if not lost.exists() or damage is _empty:
            if number == 2:
                assert logstore.rebuild(root).topics["kept"].partitions == 2
                return
            assert logstore.rebuild(root).missing == (TopicPartition("kept", number),)
        else:
            assert logstore.rebuild(root).missing == ()
    clock = ManualClock()
    for read_only in (True, False):
        with open_store(root, clock, read_only=read_only) as store:
            topic = store["kept"]
            uses = (
                lambda store: store["kept"][number],
                lambda store: store["kept"].scan().count(),
                lambda store: store.describe_topic("kept"),
                consume,
            )
            for use in uses:
                with pytest.raises(NotALogError, match=f"kept-{number}"):
                    use(store)
            assert sum(1 for _ in topic[(number + 1) % 3].scan()) == 10
            if not read_only:
                with pytest.raises(NotALogError, match=f"kept-{number}"):
                    topic.append(b"later", partition=number)
                with pytest.raises(NotALogError, match=f"kept-{number}"):
                    store.snapshot(root.parent / "copy")
                store.housekeep()
    assert found(root) & {"partition-missing", "partition-emptied"}
    assert not lost.exists() or not list(lost.glob("*.log"))
    # As the error says: where its records are gone for good.
    shutil.rmtree(lost, ignore_errors=True)
    Log.open(lost).close()
    with open_store(root) as store:
        assert count(store)[number] == 0
        assert store["kept"].append(b"later", partition=number).offset == 0


def test_files_of_the_root_that_are_lost_lose_no_record_in_silence(root):
    """Alone and in pairs: the store opens with all its records, or is refused by name."""
    names = [path.name for path in root.iterdir() if path.is_file()]
    outcomes = set()
    for lost in [*itertools.combinations(names, 1), *itertools.combinations(names, 2)]:
        copy = root.parent / "copy"
        shutil.copytree(root, copy)
        for name in lost:
            (copy / name).unlink()
        try:
            with open_store(copy) as store:
                assert count(store) == [10, 10, 10]
                assert store["kept"].config.retention_ms == -1
            outcomes.add("opened")
        except LogstoreError as error:
            assert CATALOGUE in lost
            assert isinstance(error, DamagedCatalogueError)
            outcomes.add("refused")
        shutil.rmtree(copy)
    assert outcomes == {"opened", "refused"}


# -- power cuts


@pytest.mark.crash
def test_a_power_cut_leaves_the_lost_catalogue_lost_or_the_new_one_whole():
    disk = SimDisk(1)
    clock = ManualClock()
    with logstore.open("/data", {"logstore.ack": "synced"}, files=disk, clock=clock) as store:
        topic = store.create_topic("t", 2)
        topic.append(b"one", partition=0)
        topic.append(b"two", partition=1)
    catalogue = files.Directory("/data", disk)
    whole = catalogue.read(CATALOGUE)
    catalogue.replace(CATALOGUE, whole[:-5], durable=True)
    disk.keep_moments()
    rebuilt = logstore.rebuild("/data", files=disk, clock=clock)
    states = set()
    for moment in disk.moments():
        for policy in ("none", "all"):
            after = moment.crash(policy, seed=1, page_bytes=512)
            try:
                with logstore.open("/data", files=after, clock=clock) as store:
                    assert store["t"].id == rebuilt.topics["t"].id
                    assert count(store, "t") == [1, 1]
                states.add("rebuilt")
            except DamagedCatalogueError:
                logstore.rebuild("/data", files=after, clock=clock)
                states.add("damaged")
    assert states == {"rebuilt", "damaged"}
