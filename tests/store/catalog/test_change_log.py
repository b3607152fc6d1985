"""The log of changes in the catalogue's file: what is in it, what damages it, and what a change costs."""

from __future__ import annotations

import itertools
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

import logstore
from logstore.errors import DamagedCatalogueError, DiskFullError
from logstore.log.directory.files import Directory
from logstore.store.catalog import topic_list
from logstore.store.catalog.catalogue_file import CatalogueFollower, CatalogueWriter
from logstore.store.catalog.change_blocks import BLOCK, of_blocks, to_blocks
from logstore.store.catalog.topic_list import (
    CATALOGUE,
    LOG_BYTES,
    NEWEST,
    Catalogue,
    TopicEntry,
    Written,
    change_text,
)
from logstore.testing import ManualClock, SimDisk

pytestmark = pytest.mark.row("S20", part="what is missing is told")

ENTRY = TopicEntry(id="A" * 22, partitions=3, settings={"retention.ms": "5"})
#: An entry of several blocks.
LONG = ENTRY.replace(settings={f"setting.{n}": "é" * 40 for n in range(9)})


def written(disk: SimDisk, *changes: dict[str, TopicEntry | None], topics: int = 2) -> Catalogue:
    """Write a catalogue with some changes in its log."""
    root = Directory("/data", disk)
    root.create_durably()
    catalogue = Catalogue(cluster_id="c", topics={f"t{n}": ENTRY for n in range(topics)})
    catalogue.save(root)
    writer = CatalogueWriter(root)
    for change in changes:
        catalogue = writer.change(catalogue, change)
    return catalogue


def data_of(disk: SimDisk) -> bytes:
    data = Directory("/data", disk).read(CATALOGUE)
    assert data is not None
    return data


CHANGES = ({"new": ENTRY}, {"t0": LONG}, {"t1": None, "new": ENTRY.replace(partitions=9)}, {"t0": None})


def test_what_is_changed_is_read():
    disk = SimDisk(1)
    catalogue = written(disk, *CHANGES)
    assert Catalogue.load(Directory("/data", disk)) == catalogue
    assert catalogue.topics == {"new": ENTRY.replace(partitions=9)}
    assert catalogue.number == 1 + len(CHANGES)


@given(st.lists(st.binary(min_size=1, max_size=3_000).map(lambda data: data.hex().encode()), max_size=6))
def test_blocks_give_the_texts_back(texts):
    data = b"".join(to_blocks(7 + n, text) for n, text in enumerate(texts))
    found = of_blocks(data + bytes(8 * BLOCK), 7)
    assert ([text.rstrip(b" ") for text in found.texts], found.end, found.is_torn) == (texts, len(data), False)


def test_every_cut_is_found():
    disk = SimDisk(1)
    written(disk, *CHANGES)
    data = data_of(disk)
    for size in (*range(0, len(data), 64), len(data) - 1):
        with pytest.raises(DamagedCatalogueError):
            Catalogue.of_bytes(data[:size], "here")
    with pytest.raises(DamagedCatalogueError, match="was written with"):
        Catalogue.of_bytes(data + bytes(BLOCK), "here")


@pytest.mark.parametrize("bit", [0, 7])
def test_every_flipped_byte_is_found(bit):
    disk = SimDisk(1)
    written(disk, {"new": ENTRY}, {"t0": LONG})
    data = data_of(disk)
    used = len(data.rstrip(b"\0"))
    for at in (*range(used + BLOCK), len(data) - 1):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        if at < used + 8 and at != used:
            with pytest.raises(DamagedCatalogueError):
                Catalogue.of_bytes(bytes(flipped), "here")
        else:
            # A byte among zeros is a write that has failed half way: it changes nothing. (Where fewer than eight
            # zeros are before it, it is none.)
            assert Catalogue.of_bytes(bytes(flipped), "here") == Catalogue.of_bytes(data, "here")


def test_some_blocks_of_the_last_change_are_none_of_it():
    disk = SimDisk(1)
    before = written(disk, {"new": ENTRY})
    written_before = data_of(disk)
    blocks = to_blocks(before.number + 1, b"x" * 2_000)
    count = len(blocks) // BLOCK
    assert count == 5
    end = len(written_before.rstrip(b"\0"))
    for kept in itertools.product((False, True), repeat=count):
        if not all(kept):
            part = b"".join(
                blocks[n * BLOCK : (n + 1) * BLOCK] if is_kept else bytes(BLOCK) for n, is_kept in enumerate(kept)
            )
            data = (written_before[:end] + part).ljust(len(written_before), b"\0")
            found = Written.of_bytes(data, "here")
            assert found.catalogue == before
            assert (found.end, found.is_checkpoint) == (end, False)


@pytest.mark.parametrize("unit", [8, 64, 512])
def test_any_part_of_the_last_change_is_none_of_it_whatever_unit_the_disk_writes_in(unit):
    disk = SimDisk(1)
    before = written(disk, {"new": ENTRY})
    data = data_of(disk)
    end = len(data.rstrip(b"\0"))
    blocks = to_blocks(before.number + 1, change_text({"t0": LONG, "t1": None}, None))
    after = Catalogue.of_bytes((data[:end] + blocks).ljust(len(data), b"\0"), "here")
    assert after == before.with_topics({"t0": LONG, "t1": None})
    units = [blocks[at : at + unit] for at in range(0, len(blocks), unit)]
    rng = random.Random(unit)
    for share in (0.1, 0.5, 0.9, 0.99):
        for _ in range(300):
            kept = [rng.random() < share for _ in units]
            if all(kept):
                continue
            part = b"".join([each if is_kept else bytes(unit) for each, is_kept in zip(units, kept, strict=True)])
            found = Written.of_bytes((data[:end] + part).ljust(len(data), b"\0"), "here")
            assert found.catalogue == before
            assert (found.catalogue.number, found.end) == (before.number, end)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_few_zeros_in_the_last_change_are_damage(count):
    """No device writes in so small a unit: an acknowledged change is not passed over because of them."""
    disk = SimDisk(1)
    written(disk, {"new": ENTRY}, {"t0": LONG})
    data = data_of(disk)
    used = len(data.rstrip(b"\0"))
    for at in range(data.index(b"3 1/"), used - count, 5):
        with pytest.raises(DamagedCatalogueError):
            Catalogue.of_bytes(data[:at] + bytes(count) + data[at + count :], "here")


def test_a_block_shares_no_sector_with_another_change():
    for settings in range(40):
        entry = ENTRY.replace(settings={"k": "v" * 13 * settings})
        catalogue = Catalogue(cluster_id="c" * settings, topics={"t": entry})
        assert len(catalogue.to_bytes(LOG_BYTES)) % BLOCK == 0
        disk = SimDisk(1)
        root = Directory("/data", disk)
        root.create_durably()
        found = catalogue.save(root)
        assert found.end % BLOCK == found.size % BLOCK == 0
        CatalogueWriter(root).change(catalogue, {"t": entry.replace(partitions=4)})
        assert Written.load(root).end % BLOCK == 0


def test_planted_a_checkpoint_that_ends_anywhere_is_found(monkeypatch):
    monkeypatch.setattr(topic_list, "BLOCK", 1)
    monkeypatch.setattr(topic_list, "LOG_BYTES", LOG_BYTES)
    with pytest.raises(AssertionError):
        test_a_block_shares_no_sector_with_another_change()


@pytest.mark.parametrize("gone", range(4))
def test_a_block_that_is_missing_before_the_last_change_is_damage(gone):
    disk = SimDisk(1)
    written(disk, {"new": ENTRY}, {"t0": LONG}, {"t1": None})
    data = bytearray(data_of(disk))
    start = data.index(b"2 1/1 {") + gone * BLOCK
    data[start : start + BLOCK] = bytes(BLOCK)
    with pytest.raises(DamagedCatalogueError, match=r"ValueError: the change . is not whole"):
        Catalogue.of_bytes(bytes(data), "here")


def test_a_last_change_that_was_acknowledged_and_is_missing_is_an_earlier_copy():
    disk = SimDisk(1)
    written(disk, {"new": ENTRY})
    earlier = data_of(disk)
    written(disk, {"new": ENTRY}, {"t0": None})
    Directory("/data", disk).replace(CATALOGUE, earlier, durable=True)
    assert CatalogueFollower(Directory("/other", SimDisk(2))).read() is None
    for load in (Catalogue.load, CatalogueWriter, lambda root: CatalogueFollower(root).read()):
        with pytest.raises(DamagedCatalogueError, match="an earlier copy"):
            load(Directory("/data", disk))


def test_a_log_that_is_full_makes_a_checkpoint():
    disk = SimDisk(1)
    written(disk)
    root = Directory("/data", disk)
    writer = CatalogueWriter(root)
    catalogue = writer.found
    kinds = set()
    for number in range(3 * LOG_BYTES // BLOCK):
        before = catalogue.number
        catalogue = writer.change(catalogue, {f"new{number % 7}": ENTRY if number % 2 else None})
        found = Written.load(root)
        assert found.catalogue == catalogue
        assert found.catalogue.number == catalogue.number > before
        kinds.add(found.is_checkpoint)
        assert len(data_of(disk)) <= LOG_BYTES + 8 * BLOCK
    assert kinds == {False, True}
    whole = writer.change(catalogue, {f"many{number}": ENTRY for number in range(300)})
    assert Written.load(root).is_checkpoint
    assert Catalogue.load(root) == whole


def test_a_follower_sees_each_change_and_reads_little_of_it():
    disk = SimDisk(1)
    written(disk, topics=1_000)
    root = Directory("/data", disk)
    writer, follower = CatalogueWriter(root), CatalogueFollower(root)
    catalogue = writer.found
    with pytest.MonkeyPatch.context() as patch:
        assert follower.read() == catalogue
        patch.setattr(Written, "load", lambda root: pytest.fail("all of the catalogue is read"))
        for change in CHANGES:
            before = follower.read()
            assert follower.read() is before
            catalogue = writer.change(catalogue, change)
            assert follower.read() == catalogue
    catalogue = writer.replace(catalogue)
    assert follower.read() == catalogue
    root.remove(CATALOGUE)
    assert follower.read() is None


def test_a_follower_takes_half_a_change_for_none():
    disk = SimDisk(1)
    before = written(disk, {"new": ENTRY})
    root = Directory("/data", disk)
    follower = CatalogueFollower(root)
    follower.read()
    data = data_of(disk)
    end = len(data.rstrip(b"\0"))
    change = to_blocks(before.number + 1, b'{"topics": {"new": null}}')
    with root.open(CATALOGUE, writable=True) as file:
        for size in (1, 40, BLOCK - 1):
            file.write(change[:size], end)
            assert follower.read() == before
        file.write(change, end)
    assert "new" not in follower.read().topics


def test_a_change_costs_the_same_beside_two_topics_and_beside_thousands():
    costs = []
    for topics in (2, 3_000):
        disk = SimDisk(1)
        catalogue = written(disk, topics=topics)
        writer = CatalogueWriter(Directory("/data", disk))
        before, size = disk.call_counts(), len(data_of(disk).rstrip(b"\0"))
        writer.change(catalogue, {"new": ENTRY})
        after = disk.call_counts()
        calls = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        costs.append((calls, len(data_of(disk).rstrip(b"\0")) - size))
    assert costs[0] == costs[1]
    assert costs[0][1] == BLOCK
    assert [count for name, count in costs[0][0].items() if "sync" in name] == [1]


def test_the_file_of_an_earlier_version_is_replaced_once():
    disk = SimDisk(1)
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        store.create_topic("t", 2)
    root = Directory("/data", disk)
    head, facts, _ = Catalogue.load(root).to_bytes().split(b"\n", 2)
    from logstore.batch._crc32c import crc32c

    body = head.replace(b"3", b"2") + b"\n" + facts + b"\n"
    root.replace(CATALOGUE, body + b"crc32c %08x\n" % crc32c(body), durable=True)
    follower = CatalogueFollower(root)
    found = follower.read()
    assert follower.read() is found
    with logstore.open("/data", files=disk, read_only=True, clock=ManualClock()) as store:
        assert store.topics() == ["t"]
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        assert store.topics() == ["t"]
        replaced = data_of(disk)
        assert replaced.startswith(b"logstore topics 3\n")
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        assert store["t"].partition_count == 2
    assert data_of(disk) == replaced
    assert follower.read().topics.keys() == found.topics.keys()


def test_a_store_with_changes_opens_on_a_full_disk():
    disk = SimDisk(1)
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        store.create_topic("t", 1).append(b"one")
        store._host.topics_table.reserve.release(1 << 30)
    assert not Written.load(Directory("/data", disk)).is_checkpoint
    disk.capacity = sum(map(len, disk.image().values()))
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        assert store.topics() == ["t"]
        with pytest.raises(DiskFullError):
            store.create_topic("another", 1)
        assert store.topics() == ["t"]


def test_a_failed_sync_of_a_change_is_followed_by_a_checkpoint():
    disk = SimDisk(1)
    written(disk)
    root = Directory("/data", disk)
    writer = CatalogueWriter(root)
    disk.fail("fdatasync", 1, errno=5)
    with pytest.raises(logstore.LogstoreError):
        writer.change(writer.found, {"lost": ENTRY})
    changed = writer.change(writer.found, {"new": ENTRY})
    assert "lost" not in changed.topics
    for policy in ("none", "all"):
        found = Written.load(Directory("/data", disk.crash(policy)))
        assert (found.catalogue, found.is_checkpoint) == (changed, True)


def test_damage_of_the_log_by_chance_is_never_a_shorter_list():
    """Random bytes over a part of the log: the catalogue, or an error."""
    disk = SimDisk(1)
    whole = written(disk, *CHANGES[:2])
    root = Directory("/data", disk)
    data = data_of(disk)
    start = data.index(b"2 1/1 {")
    rng = random.Random(5)
    for _ in range(300):
        at = rng.randrange(start, start + 6 * BLOCK)
        noise = struct.pack("<Q", rng.getrandbits(64))[: rng.randint(1, 8)]
        root.replace(CATALOGUE, data[:at] + noise + data[at + len(noise) :], durable=False)
        try:
            assert Catalogue.load(root) == whole
        except DamagedCatalogueError as error:
            assert CATALOGUE in str(error)
    assert root.read(NEWEST) is not None
