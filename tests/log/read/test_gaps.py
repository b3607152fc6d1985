"""What is lost between the segments of a log is an error wherever it is met, and gaps that are meant are none."""

from __future__ import annotations

import logging
import shutil

import pyarrow as pa
import pytest

from logstore import Log
from logstore.client.scan import spans
from logstore.errors import CorruptRecordError, DamagedLogError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.checkpoints import LogKind
from logstore.log.recovery import recovery
from logstore.log.tools import repair, verify
from logstore.records import Origin
from tests.log.logs import at, crashed_copy, one_batch, open_log, tree, values_of

pytestmark = [pytest.mark.row("S8"), pytest.mark.row("S20", part="what is missing is told")]

SETTINGS = {"segment_bytes": 1_000, "index_interval_bytes": 150}
COUNT = 60


def build(root, **settings):
    """A closed log of sixty records, one a batch, in several segments; where each of them begins."""
    with open_log(root, **SETTINGS, **settings) as log:
        for n in range(COUNT):
            log.append([(b"%d" % (n % 7), b"%02d" % n * 20)], timestamp=1_000 + n)
        return [segment.base_offset for segment in log.maintenance.segments]


def log_of(root, base):
    return root / "t-0" / f"{base:020d}.log"


def remove(root, base):
    for path in (root / "t-0").glob(f"{base:020d}.*"):
        path.unlink()


def remove_records(root, base):
    log_of(root, base).unlink()


def empty(root, base):
    log_of(root, base).write_bytes(b"")


def cut(root, base):
    """The last three batches go; the index still speaks of them."""
    path = log_of(root, base)
    batches = list(verify.batches(str(path)))
    path.write_bytes(path.read_bytes()[: batches[-3].position])


DAMAGE = {"removed": remove, "records removed": remove_records, "emptied": empty, "cut": cut}


def hole(root, base, following, damage):
    """Which offsets a damage takes: from, to (exclusive)."""
    if damage is not cut:
        return base, following
    return [found.batch.base_offset for found in verify.batches(str(log_of(root, base)))][-3], following


def open_to_read(root, how, **settings):
    """For writing, or read-only: an emptied segment keeps a log from being written to at all."""
    return open_log(root, **SETTINGS, **settings, read_only=how == "beside")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    return root, build(root)


@pytest.fixture(params=list(DAMAGE))
def holed(request, whole, tmp_path):
    """A log of which a segment between others is damaged: its root, and the offsets that are missing."""
    source, bases = whole
    root = tmp_path / "holed"
    shutil.copytree(source, root)
    damage = DAMAGE[request.param]
    missing = hole(root, bases[2], bases[3], damage)
    damage(root, bases[2])
    return root, *missing, request.param


WAYS = {
    "read in front of it": lambda log, first, end: log.read(first),
    "read inside": lambda log, first, end: log.read(end - 1),
    "record_at": lambda log, first, end: log.record_at(first + 1),
    "locate": lambda log, first, end: log.replica.locate(first),
    "iterate": lambda log, first, end: list(log),
    "scan inside": lambda log, first, end: list(log.scan(first + 1, end - 1)),
    "values": lambda log, first, end: list(log.scan().values()),
    "count": lambda log, first, end: log.scan().count(),
    "count of what is lost": lambda log, first, end: log.scan(first, end).count(),
    "a time inside": lambda log, first, end: log.offset_for_time(1_000 + first + 1),
    "a time behind": lambda log, first, end: log.offset_for_time(1_000 + end + 2),
    "since": lambda log, first, end: list(log.scan(since=1_000 + end)),
    "a narrowed plan": lambda log, first, end: list(log.scan(*spans.narrowed(log, 0, COUNT, 1_000 + end + 3))),
}


@pytest.mark.parametrize("how", ["writing", "beside"])
def test_what_is_missing_between_segments_is_an_error_in_every_way_of_reading(holed, how):
    root, first, end, damage = holed
    if how == "writing" and damage == "emptied":
        with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
            open_log(root, **SETTINGS)
        return
    with open_to_read(root, how) as log:
        for name, look in WAYS.items():
            with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing") as raised:
                look(log, first, end)
            assert raised.value.offset == first, name
            assert f"read on from offset {end}" in str(raised.value), name
        # Arrow hands on the words of an error, not the error.
        with pytest.raises(pa.ArrowInvalid, match=f"DamagedLogError: .*{first} to {end - 1} are missing"):
            pa.table(log.scan())


@pytest.mark.parametrize("how", ["writing", "beside"])
def test_what_stands_before_and_behind_a_loss_is_read(holed, how):
    root, first, end, damage = holed
    with open_to_read(root, "beside" if damage == "emptied" else how) as log:
        assert [record.offset for record in log.scan(0, first)] == list(range(first))
        assert [record.offset for record in log.scan(end)] == list(range(end, COUNT))
        assert log.scan(0, first).count() + log.scan(end).count() == COUNT - end + first
        assert log.record_at(first - 1).offset == first - 1
        assert log.offset_for_time(1_003).offset == 3


def test_the_first_segment_that_lost_its_content_is_a_loss_too(whole, tmp_path):
    source, bases = whole
    root = tmp_path / "holed"
    shutil.copytree(source, root)
    empty(root, 0)
    with open_to_read(root, "beside") as log:
        for look in (lambda: list(log), lambda: log.scan().count(), lambda: log.read(0)):
            with pytest.raises(DamagedLogError, match=f"offsets 0 to {bases[1] - 1} are missing"):
                look()
        assert [record.offset for record in log.scan(bases[1])] == list(range(bases[1], COUNT))
    with pytest.raises(DamagedLogError, match=f"offsets 0 to {bases[1] - 1} are missing"):
        open_log(root, **SETTINGS)


def test_what_was_deleted_of_a_damaged_segment_is_not_missing(whole, tmp_path):
    source, bases = whole
    root = tmp_path / "holed"
    shutil.copytree(source, root)
    first, end = hole(root, bases[2], bases[3], cut)
    cut(root, bases[2])
    with open_log(root, **SETTINGS) as log:
        log.delete_before(first + 1)
        with pytest.raises(DamagedLogError, match=f"offsets {first + 1} to {end - 1} are missing"):
            list(log)
        log.delete_before(end)
        assert [record.offset for record in log] == list(range(end, COUNT))


def test_a_loss_is_found_without_the_recovery_file_too(holed):
    root, first, end, _ = holed
    (root / "t-0" / checkpoints.RECOVERY).unlink()
    with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
        open_log(root, **SETTINGS, cleanup_policy="compact")


def test_a_reader_that_follows_a_writer_raises_no_false_alarm(tmp_path):
    with open_log(tmp_path, **SETTINGS) as log, open_log(tmp_path, **SETTINGS, read_only=True) as reader:
        for n in range(COUNT):
            log.append([b"%02d" % n * 20])
            assert reader.scan().count() == n + 1
            assert reader.record_at(n).offset == n
        log.replica.truncate_to(25)
        log.append([b"new"])
        assert [record.offset for record in reader] == list(range(26))
        log.delete_before(20)
        assert reader.scan().count() == 6


@pytest.mark.parametrize("start", [0, 7])
def test_a_reader_finds_nothing_missing_in_a_log_without_records(tmp_path, start):
    with open_log(tmp_path, **SETTINGS) as log:
        for _ in range(start):
            log.append([b"deleted"])
        log.delete_before(start)
        with open_log(tmp_path, **SETTINGS, read_only=True) as reader:
            assert reader.offset_for_time(0) is None
            assert reader.scan().count() == 0
            log.append([b"first"], timestamp=5)
            assert reader.offset_for_time(0) == (5, start)


# --- compaction, deletion, copies -----------------------------------------------------------------


def test_a_compaction_does_not_put_segments_together_over_a_loss(tmp_path):
    bases = build(tmp_path, cleanup_policy="compact")
    first, end = hole(tmp_path, bases[2], bases[3], cut)
    cut(tmp_path, bases[2])
    before = tree(tmp_path)
    with open_log(tmp_path, **SETTINGS, cleanup_policy="compact") as log:
        with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
            log.maintenance.compact()
        assert f"offsets {first} to {end - 1} are missing" in (log.maintenance.cleanable().cleaner_error or "")
    after = tree(tmp_path)
    assert {name for name in before if name.endswith(".log")} == {name for name in after if name.endswith(".log")}


def test_a_compacted_log_lies_end_to_end_and_its_losses_are_found(tmp_path):
    bases = build(tmp_path, cleanup_policy="compact")
    with open_log(tmp_path, **{**SETTINGS, "segment_bytes": 1_200}, cleanup_policy="compact") as log:
        log.maintenance.compact()
        assert len({record.key for record in log}) == 7
        bases = [segment.base_offset for segment in log.maintenance.segments]
        assert all(segment.index.is_joined() for segment in log.maintenance.segments[:-1])
    assert len(bases) > 2
    remove(tmp_path, bases[1])
    with (
        open_log(tmp_path, **SETTINGS, cleanup_policy="compact") as log,
        pytest.raises(DamagedLogError, match=f"offsets {bases[1]} to {bases[2] - 1} are missing"),
    ):
        list(log)


def test_retention_says_what_was_lost_before_it_deletes_what_is_around_it(whole, tmp_path, caplog):
    source, bases = whole
    root = tmp_path / "holed"
    shutil.copytree(source, root)
    remove(root, bases[2])
    with open_log(root, **SETTINGS, retention_ms=0) as log, caplog.at_level(logging.ERROR):
        log.maintenance.retain()
        assert log.log_start_offset == COUNT
    assert f"offsets {bases[2]} to {bases[3] - 1} are missing" in caplog.text


def test_a_checkpoint_of_a_log_is_not_copied_over_a_loss(whole, tmp_path):
    source, bases = whole
    root = tmp_path / "holed"
    shutil.copytree(source, root)
    cut(root, bases[2])
    (tmp_path / "copy" / "t-0").mkdir(parents=True)
    with (
        open_log(root, **SETTINGS) as log,
        pytest.raises(DamagedLogError, match=f"to {bases[3] - 1} are missing"),
    ):
        log.maintenance.copy(log.maintenance.checkpoint(), Directory(tmp_path / "copy" / "t-0"))


def test_a_copy_that_has_lost_the_end_of_a_segment_is_not_verified(whole, tmp_path):
    source, bases = whole
    copy = tmp_path / "copy"
    (copy / "t-0").mkdir(parents=True)
    with open_log(source, **SETTINGS) as log:
        checkpoint = log.maintenance.checkpoint()
        log.maintenance.copy(checkpoint, Directory(copy / "t-0"), link=False)
        assert log.maintenance.verify(checkpoint, Directory(copy / "t-0")) > 0
        cut(copy, bases[2])
        with pytest.raises(CorruptRecordError, match=f"to {bases[3] - 1} are missing before the next segment"):
            log.maintenance.verify(checkpoint, Directory(copy / "t-0"))


def test_a_copy_is_of_the_kind_of_its_log(tmp_path):
    build(tmp_path / "log")
    (tmp_path / "copy" / "t-0").mkdir(parents=True)
    with open_log(tmp_path / "log", **SETTINGS) as log:
        log.maintenance.copy(log.maintenance.checkpoint(), Directory(tmp_path / "copy" / "t-0"))
    for name in (checkpoints.RECOVERY, checkpoints.START):
        point = checkpoints.decode_slots((tmp_path / "copy" / "t-0" / name).read_bytes())
        assert point.kind is LogKind.CONTIGUOUS


# --- the kind -------------------------------------------------------------------------------------


def kinds(root) -> tuple[LogKind, LogKind]:
    """What the two files of a log say."""
    directory = Directory(root / "t-0")
    point, start = recovery.read_point(directory), recovery.read_start(directory)
    return point.kind, LogKind.UNRECORDED if start is None else start.kind


@pytest.mark.parametrize("settings", [{}, {"offset_mode": "bytes"}, {"cleanup_policy": "compact"}])
def test_a_log_is_contiguous_from_its_beginning(tmp_path, settings):
    with open_log(tmp_path, **settings) as log:
        log.append([(b"key", b"value")])
        assert kinds(tmp_path)[0] is LogKind.CONTIGUOUS
    bases = build(tmp_path / "larger", **settings)
    assert len(bases) > 3
    assert kinds(tmp_path / "larger") == (LogKind.CONTIGUOUS, LogKind.CONTIGUOUS)
    with open_log(tmp_path / "larger", **settings) as log:
        assert all(segment.index.is_joined() for segment in log.maintenance.segments[:-1])


def test_a_replica_turns_gapped_before_its_first_gap_between_segments(tmp_path):
    with open_log(tmp_path / "log") as log:
        log.replica.append_batch(at(one_batch([b"a"]), 0), origin=Origin.REPLICATION)
        log.replica.append_batch(at(one_batch([b"b"]), 7), origin=Origin.REPLICATION)
        assert kinds(tmp_path / "log")[0] is LogKind.CONTIGUOUS  # a gap inside a segment hides no loss
        log.replica.append_batch(at(one_batch([b"c"]), 2**33), origin=Origin.REPLICATION)
        assert kinds(tmp_path / "log") == (LogKind.GAPPED, LogKind.GAPPED)
        copy = crashed_copy(log, tmp_path / "copy")
        with open_log(tmp_path / "log", read_only=True) as reader:
            assert values_of(reader) == [b"a", b"b", b"c"]
    for root in (tmp_path / "log", copy):
        (root / "t-0" / checkpoints.RECOVERY).unlink()
        with open_log(root, kind=LogKind.CONTIGUOUS) as log:
            assert values_of(log) == [b"a", b"b", b"c"]
            assert log.scan().count() == 3


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_log_that_is_cut_inside_of_a_gap_ends_before_it_and_opens_again(tmp_path, policy):
    """Its end was a promise that no batch kept, and the next open took it for a loss."""
    with open_log(tmp_path, **SETTINGS, cleanup_policy=policy) as log:
        log.replica.append_batch(at(one_batch([(b"k", b"a")]), 0), origin=Origin.REPLICATION)
        log.replica.append_batch(at(one_batch([(b"k", b"b")]), 20), origin=Origin.REPLICATION)
        assert log.replica.truncate_to(10) == log.log_end_offset == 1
    with open_log(tmp_path, **SETTINGS, cleanup_policy=policy) as log:
        log.append([(b"k", b"x" * 900)])
        assert [segment.base_offset for segment in log.maintenance.segments] == [0, 1]
        assert kinds(tmp_path) == (LogKind.CONTIGUOUS, LogKind.CONTIGUOUS)
        assert [record.offset for record in log] == [0, 1]


def unrecord(root) -> None:
    """As a log was before kinds were recorded."""
    path = root / "t-0" / checkpoints.RECOVERY
    point = checkpoints.decode_slots(path.read_bytes())
    slot = checkpoints.encode_slot(point._replace(kind=LogKind.UNRECORDED))
    data = bytearray(checkpoints.RECOVERY_BYTES)
    place = checkpoints.slot_position(point.sequence)
    data[place : place + len(slot)] = slot
    path.write_bytes(data)
    (root / "t-0" / checkpoints.START).unlink()


def test_an_older_log_becomes_contiguous_when_nothing_is_missing_in_it(tmp_path):
    bases = build(tmp_path)
    unrecord(tmp_path)
    with open_log(tmp_path, **SETTINGS, read_only=True) as log:
        assert log.scan().count() == COUNT
    with open_log(tmp_path, **SETTINGS) as log:
        assert log.maintenance.was_clean
    assert kinds(tmp_path)[0] is LogKind.CONTIGUOUS
    remove(tmp_path, bases[2])
    with open_log(tmp_path, **SETTINGS) as log, pytest.raises(DamagedLogError, match="are missing"):
        list(log)


def test_gaps_of_an_older_log_are_passed_as_before_and_nothing_is_recorded(tmp_path):
    bases = build(tmp_path)
    unrecord(tmp_path)
    remove(tmp_path, bases[2])
    for _ in range(2):
        with open_log(tmp_path, **SETTINGS) as log:
            assert log.scan().count() == COUNT - bases[3] + bases[2]
        assert kinds(tmp_path)[0] is LogKind.UNRECORDED


@pytest.mark.parametrize("given", [LogKind.GAPPED, LogKind.CONTIGUOUS])
def test_what_the_catalogue_says_counts_for_a_log_that_does_not_know(tmp_path, given):
    bases = build(tmp_path)
    unrecord(tmp_path)
    remove(tmp_path, bases[2])
    with open_log(tmp_path, **SETTINGS, kind=given) as log:
        if given is LogKind.GAPPED:
            assert log.scan().count() == COUNT - bases[3] + bases[2]
        else:
            with pytest.raises(DamagedLogError, match="are missing"):
                list(log)
    assert kinds(tmp_path)[0] is given


def test_a_loss_that_is_accepted_is_passed_over_from_then_on(holed):
    root, first, end, _ = holed
    repair.accept_gaps(Directory(root / "t-0"))
    assert kinds(root) == (LogKind.GAPPED, LogKind.GAPPED)
    with open_log(root, **SETTINGS) as log:
        assert [record.offset for record in log] == [*range(first), *range(end, COUNT)]
        assert log.append([b"more"]).first_offset == COUNT


# --- looking from outside -------------------------------------------------------------------------


def test_a_verification_names_a_loss_also_where_the_topic_is_compacted(holed):
    root, first, end, _ = holed
    found = list(verify.verify(verify.find(root / "t-0"), is_compacted=True))
    (problem,) = [problem for problem in found if problem.kind is verify.Kind.DAMAGE]
    assert f"offsets {first} to {end - 1} are missing before the next segment" in problem.what
    (gap,) = verify.gaps(Directory(root / "t-0"))
    assert gap[1:] == (first, end)


@pytest.mark.parametrize("damage", [remove, cut])
def test_planted_segments_that_are_passed_without_a_look_are_found(whole, tmp_path, monkeypatch, damage):
    """As it was: a segment that does not hold an offset is passed, whatever should have been in it."""
    source, bases = whole
    shutil.copytree(source, tmp_path / "holed")
    first, end = hole(tmp_path / "holed", bases[2], bases[3], damage)
    damage(tmp_path / "holed", bases[2])
    monkeypatch.setattr(Log, "_check_joined", lambda self, segment: None)
    with open_log(tmp_path / "holed", **SETTINGS) as log:
        assert log.scan().count() == COUNT - (end - first)
        assert [record.offset for record in log] == [*range(first), *range(end, COUNT)]
