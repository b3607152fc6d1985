"""What is lost between the segments of a topic: each way of reading the store says so, and so do its tools."""

from __future__ import annotations

import shutil

import pytest

import logstore
from logstore.client.backend.findings import Level
from logstore.errors import DamagedLogError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind
from logstore.records import TopicPartition
from logstore.store.admin.diagnosis import diagnose
from logstore.store.admin.transfer import copy_log
from logstore.store.catalog.topic_list import Catalogue

pytestmark = [pytest.mark.row("S8"), pytest.mark.row("S20", part="what is missing is told")]

SETTINGS = {"segment.bytes": 1_000, "index.interval.bytes": 150}
PLACE = TopicPartition("flights", 0)
COUNT = 60


def segments(root):
    return sorted(int(path.stem) for path in (root / "flights-0").glob("*.log"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole") / "store"
    with logstore.open(root, SETTINGS) as store:
        flights = store.create_topic("flights")
        for number in range(COUNT):
            flights.append(b"%02d" % number * 20, b"key", timestamp=1_000 + number)
    return root


@pytest.fixture
def holed(whole, tmp_path):
    """A store that has lost a segment between others: its root, and the offsets that are missing."""
    root = tmp_path / "store"
    shutil.copytree(whole, root)
    bases = segments(root)
    (root / "flights-0" / f"{bases[2]:020d}.log").unlink()
    return root, bases[2], bases[3]


@pytest.fixture(params=[False, True], ids=["writing", "beside"])
def store(request, holed):
    with logstore.open(holed[0], SETTINGS, read_only=request.param) as opened:
        yield opened


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_consumer_is_told_of_a_loss_and_goes_on_where_it_is_sent(store, holed, reset):
    _, first, end = holed
    with store.consumer(auto_offset_reset=reset) as consumer:
        consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        seen = []
        while len(seen) < first:
            seen += [record.offset for record in consumer.poll()]
        assert seen == list(range(first))
        with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
            consumer.poll()
        consumer.seek(PLACE, end)
        assert [record.offset for record in consumer.poll(max_records=COUNT)] == list(range(end, COUNT))


def test_a_scan_of_a_topic_and_its_count_are_refused(store, holed):
    _, first, end = holed
    with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
        list(store["flights"].scan())
    with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
        store["flights"].scan().count()


def test_a_copy_of_a_topic_stops_in_front_of_a_loss(store, holed, tmp_path):
    _, first, end = holed
    with logstore.open(tmp_path / "other") as other:
        target = other.create_topic("flights").log(0)
        with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
            copy_log(store["flights"].partitions[0], target)
        assert target.log_end_offset <= first


@pytest.mark.parametrize("verify", [False, True])
def test_no_snapshot_is_made_over_a_loss(holed, tmp_path, verify):
    root, first, end = holed
    with logstore.open(root, SETTINGS) as store:
        with pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"):
            store.snapshot(tmp_path / "copy", verify=verify)
        assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_doctor_names_a_loss(holed, deep, policy):
    root, first, end = holed
    catalogue = Catalogue.load(Directory(root))
    entry = catalogue.topics["flights"].replace(settings={"cleanup.policy": policy})
    catalogue.with_topic("flights", entry).save(Directory(root))
    found = [finding for finding in diagnose(root, deep=deep) if finding.level is Level.PROBLEM]
    assert len(found) == 1
    assert f"offsets {first} to {end - 1} are missing before the next segment" in found[0].what


def test_the_doctor_names_what_may_have_been_meant_and_calls_it_no_loss(holed):
    root, first, end = holed
    catalogue = Catalogue.load(Directory(root))
    entry = catalogue.topics["flights"]
    assert entry.kind is LogKind.CONTIGUOUS
    catalogue.with_topic("flights", entry.replace(kind=LogKind.GAPPED)).save(Directory(root))
    (gap,) = [finding for finding in diagnose(root) if finding.name == "gap"]
    assert (gap.level, f"{first} to {end - 1}" in gap.what) == (Level.INFO, True)
    with logstore.open(root, SETTINGS) as store:
        assert store["flights"].scan().count() == COUNT - (end - first)


def test_a_partition_that_has_lost_its_own_record_goes_by_the_catalogue(holed):
    root, first, end = holed
    for name in ("logstore.recovery", "logstore.start"):
        (root / "flights-0" / name).unlink()
    with (
        logstore.open(root, SETTINGS, read_only=True) as store,
        pytest.raises(DamagedLogError, match=f"offsets {first} to {end - 1} are missing"),
    ):
        list(store["flights"].scan())
