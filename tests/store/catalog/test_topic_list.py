"""The catalogue's bytes: every damage of them is found, and nothing else is."""

from __future__ import annotations

import base64
import json
import random

import pytest

import logstore
from logstore.batch._crc32c import crc32c
from logstore.errors import DamagedCatalogueError, LaterCatalogueError
from logstore.log.directory.files import Directory
from logstore.log.formats.checkpoints import LogKind
from logstore.store.catalog.topic_list import CATALOGUE, Catalogue, TopicEntry, TopicState, new_id
from logstore.testing import ManualClock, SimDisk

WHOLE = Catalogue(
    cluster_id="AFpKPn13QWYpNmdFiIX9Dg",
    next_producer_id=2000,
    topics={
        "flights": TopicEntry(
            id=new_id(random.Random(1)),
            partitions=4,
            settings={"retention.ms": "5"},
            created_ms=7,
            kind=LogKind.GAPPED,
        ),
        "weather": TopicEntry(id=new_id(random.Random(2)), partitions=2, state=TopicState.GROWING, target=5),
        "gone": TopicEntry(id=new_id(random.Random(3)), partitions=1, state=TopicState.DELETING),
    },
)


def test_what_is_written_is_read():
    assert Catalogue.of_bytes(WHOLE.to_bytes(), "here") == WHOLE
    empty = Catalogue(cluster_id="")
    assert Catalogue.of_bytes(empty.to_bytes(), "here") == empty


def test_an_entry_of_before_kinds_were_recorded_has_none():
    before = WHOLE.to_bytes().rsplit(b"crc32c", 1)[0].replace(b', "kind": "gapped"', b"")
    found = Catalogue.of_bytes(before + b"crc32c %08x\n" % crc32c(before), "here")
    assert {entry.kind for entry in found.topics.values()} == {LogKind.UNRECORDED}


def test_the_bytes_do_not_depend_on_the_order_of_topics():
    turned = Catalogue(
        cluster_id=WHOLE.cluster_id,
        next_producer_id=WHOLE.next_producer_id,
        topics=dict(reversed(WHOLE.topics.items())),
    )
    assert turned.to_bytes() == WHOLE.to_bytes()


def test_a_change_of_one_topic_is_written_and_no_other_is_encoded_again():
    entry = TopicEntry(id="A" * 22, partitions=3, settings={"retention.ms": "5"}, kind=LogKind.CONTIGUOUS)
    catalogue = Catalogue(cluster_id="c", topics={"one": entry, "two": entry, 'an "odd" one': entry})
    assert Catalogue.of_bytes(catalogue.to_bytes(), "topics") == catalogue
    grown = entry.replace(partitions=5, settings={})
    changed = catalogue.with_topics({"two": grown, "three": entry, "one": None})
    assert Catalogue.of_bytes(changed.to_bytes(), "topics") == changed
    assert (
        changed.to_bytes()
        == Catalogue(
            cluster_id="c", topics={name: each.replace() for name, each in changed.topics.items()}
        ).to_bytes()
    )
    encoded: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "dumps", lambda value, dumps=json.dumps: encoded.append(value) or dumps(value))
        changed.with_topic("four", grown).to_bytes()
    assert [value for value in encoded if isinstance(value, str)] == ["four"]


def test_every_cut_is_found():
    data = WHOLE.to_bytes()
    for size in range(len(data)):
        with pytest.raises(DamagedCatalogueError, match="here"):
            Catalogue.of_bytes(data[:size], "here")


@pytest.mark.parametrize("bit", [0, 4, 7])
def test_every_flipped_byte_is_found(bit):
    data = WHOLE.to_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        with pytest.raises(DamagedCatalogueError):
            Catalogue.of_bytes(bytes(flipped), "here")


def test_bytes_behind_it_and_a_later_version_are_refused():
    with pytest.raises(DamagedCatalogueError):
        Catalogue.of_bytes(WHOLE.to_bytes() + b"\n", "here")
    body = WHOLE.to_bytes().rsplit(b"crc32c", 1)[0].replace(b"topics 3\n", b"topics 4\n", 1)
    with pytest.raises(LaterCatalogueError, match="its version is 4, this program knows 3"):
        Catalogue.of_bytes(body + b"crc32c %08x\n" % crc32c(body), "here")


@pytest.mark.parametrize(
    "change",
    [
        (b'"partitions": 4', b'"partitions": "many"'),
        (b'"state": "ready"', b'"state": "asleep"'),
        (b'"topics"', b'"tropics"'),
        (b'{"cluster_id"', b'[{"cluster_id"'),
    ],
)
def test_a_good_checksum_over_nonsense_is_damage_too(change):
    body = WHOLE.to_bytes().rsplit(b"crc32c", 1)[0].replace(*change, 1)
    with pytest.raises(DamagedCatalogueError):
        Catalogue.of_bytes(body + b"crc32c %08x\n" % crc32c(body), "here")


def test_a_store_with_a_damaged_catalogue_does_not_open_and_is_left_as_it_is():
    disk = SimDisk(seed=1)
    with logstore.open("/data", files=disk, clock=ManualClock()) as store:
        store.create_topic("flights").append(b"one")
    data = Directory("/data", disk).read(CATALOGUE)
    for size in (0, 1, len(data) // 2, len(data) - 1):
        damaged = disk.kill()
        Directory("/data", damaged).replace(CATALOGUE, data[:size], durable=True)
        before = damaged.image("/data/flights-0")
        for read_only in (False, True):
            with pytest.raises(DamagedCatalogueError, match=r"/data/logstore\.topics"):
                logstore.open("/data", files=damaged, read_only=read_only, clock=ManualClock())
        assert damaged.image("/data/flights-0") == before
        assert Directory("/data", damaged).read(CATALOGUE) == data[:size]


def test_ids_are_those_of_kafka():
    for seed in range(200):
        text = new_id(random.Random(seed))
        assert len(text) == 22
        assert not text.startswith("-")
        assert len(base64.urlsafe_b64decode(text + "==")) == 16
