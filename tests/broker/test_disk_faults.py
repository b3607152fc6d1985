"""A full disk, and writes and syncs that fail: Kafka's error for what is refused, and everything else goes on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import logstore
from logstore.broker import serve
from logstore.protocol.generated.messages import (
    CreateTopicsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from logstore.testing import FaultyFiles
from tests.broker.test_turns import answers, batch, produce
from tests.broker.wire import Wire

STORAGE_ERROR = 56  #: Kafka's KAFKA_STORAGE_ERROR: producers ask for the leader and try again


def sent(wire: Wire, name: str, value: bytes) -> tuple[int, int]:
    wire.send(produce(name, batch(value)), 12)
    [answer] = answers(wire)
    return answer


def read(wire: Wire, name: str, offset: int = 0) -> bytes:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_bytes=1 << 20, session_epoch=-1, topics=[FetchRequest.FetchTopic(topic=name, partitions=[partition])]
    )
    [found] = wire.ask(request, 12).responses[0].partitions
    assert found.error_code == 0
    return bytes(found.records)


def goes_on(wire: Wire, name: str, end: int = 1) -> None:
    """Ask for what needs no write of that log."""
    assert b"before" in read(wire, name)
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    topic = ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=[asked])
    [found] = wire.ask(ListOffsetsRequest(topics=[topic]), 5).topics[0].partitions
    assert (found.error_code, found.offset) == (0, end)
    assert wire.ask(MetadataRequest(topics=None), 9).topics


def test_on_a_full_disk_produces_are_refused_reads_go_on_and_so_do_produces_once_there_is_space(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    with logstore.open(tmp_path / "data", files=files) as store, serve(store, "127.0.0.1:0") as broker:
        store.create_topics(["full", "other"])
        with Wire(broker) as wire, Wire(broker) as waiting:
            assert sent(wire, "full", b"before") == (0, 0)
            assert sent(wire, "other", b"before") == (0, 0)
            files.fail("pwrite", errno=errno.ENOSPC, times=-1, path_contains="full-0")
            waiting.send(produce("full", batch(b"never"), batch(b"no such partition")), 12)
            assert [code for code, _ in answers(waiting)] == [STORAGE_ERROR, 3]
            assert sent(wire, "full", b"never") == (STORAGE_ERROR, -1)
            goes_on(wire, "full")
            assert sent(wire, "other", b"meanwhile") == (0, 1)
            files.heal()
            assert sent(wire, "full", b"after") == (0, 1)
            assert sent(waiting, "full", b"last") == (0, 2)
            assert b"never" not in read(wire, "full")
    with logstore.open(tmp_path / "data") as store:
        assert [bytes(record.value) for record in store["full"].log(0)] == [b"before", b"after", b"last"]


@pytest.mark.parametrize(("call", "settings"), [("pwrite", {}), ("fdatasync", {"logstore.ack": "synced"})])
def test_a_log_whose_write_or_sync_fails_refuses_produces_and_serves_reads_and_others(
    tmp_path: Path, call: str, settings: dict[str, str]
) -> None:
    files = FaultyFiles()
    with logstore.open(tmp_path / "data", settings, files=files) as store, serve(store, "127.0.0.1:0") as broker:
        store.create_topics(["failed", "other"])
        with Wire(broker) as wire:
            assert sent(wire, "failed", b"before") == (0, 0)
            assert sent(wire, "other", b"before") == (0, 0)
            files.fail(call, errno=errno.EIO, path_contains="failed-0")
            assert sent(wire, "failed", b"unknown") == (STORAGE_ERROR, -1)
            files.heal()
            # What a failed sync has lost is known after the next open alone.
            assert sent(wire, "failed", b"never") == (STORAGE_ERROR, -1)
            # The record whose sync failed was written, and may be lost.
            goes_on(wire, "failed", end=2 if call == "fdatasync" else 1)
            assert sent(wire, "other", b"after") == (0, 1)
    with logstore.open(tmp_path / "data") as store, serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
        assert sent(wire, "failed", b"again")[0] == 0
        values = [bytes(record.value) for record in store["failed"].log(0)]
        assert values[0] == b"before"
        assert values[-1] == b"again"
        assert b"never" not in values


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_topic_that_no_disk_takes_is_refused_and_nothing_of_it_is_left(tmp_path: Path, error: int) -> None:
    files = FaultyFiles()
    with logstore.open(tmp_path / "data", files=files) as store, serve(store, "127.0.0.1:0") as broker:
        new = CreateTopicsRequest.CreatableTopic(name="made", num_partitions=3, replication_factor=1)
        with Wire(broker) as wire:
            files.fail("mkdir", errno=error, times=-1, path_contains="made-1")
            refused = wire.ask(CreateTopicsRequest(topics=[new], timeout_ms=1_000), 5)
            assert [each.error_code for each in refused.topics] == [STORAGE_ERROR]
            assert store.topics() == []
            files.heal()
            made = wire.ask(CreateTopicsRequest(topics=[new], timeout_ms=1_000), 5)
            assert [each.error_code for each in made.topics] == [0]
            found = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
            assert found.error_code == 0
