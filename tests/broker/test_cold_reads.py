"""Fetches of what is not in memory: another thread reads it, and the loop serves the others meanwhile."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.broker.served import Served
from logstore.protocol.generated.messages import ApiVersionsRequest
from logstore.store import Store
from logstore.testing import FaultyFiles
from tests.broker.test_one_client import fetch
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

VALUE = b"x" * 300_000
RECORDS = 8


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def store(tmp_path: Path, files: FaultyFiles) -> Iterator[Store]:
    """A store that was written by another process, as far as it knows."""
    with logstore.open(tmp_path / "data") as store:
        for name in ("cold", "hot"):
            topic = store.create_topic(name)
            for _ in range(RECORDS):
                topic.append(VALUE)
    with logstore.open(tmp_path / "data", files=files) as store:
        yield store


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What the pool of reads was given, and has not done."""
    found: list[Callable[[], object]] = []
    in_pool = Served.in_pool

    def kept(served: Served, work: Callable[[], object], *, reads: bool = False) -> None:
        if reads:
            found.append(work)
        else:
            in_pool(served, work)

    monkeypatch.setattr(Served, "in_pool", kept)
    return found


@pytest.fixture
def broker(store: Store, reads: list[Callable[[], object]]) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0") as broker:
        yield broker


def test_a_cold_region_is_read_by_another_thread_and_holds_up_no_client(
    files: FaultyFiles, broker: Broker, reads: list[Callable[[], object]]
) -> None:
    files.fail("cached", errno=errno.EAGAIN, times=2, path_contains="cold-0")
    asked = fetch("cold", 0, max_bytes=1 << 24)
    with Wire(broker) as lagging, Wire(broker) as other:
        lagging.send(asked, 12)
        wait_for(lambda: reads)
        for _ in range(3):
            assert len(other.ask(fetch("hot", 0), 12).responses[0].partitions[0].records) > len(VALUE)
        assert broker.metrics()["cold_reads"] == 1
        before = files.counts()["preadv"]
        reads.pop()()
        assert files.counts()["preadv"] > before
        wait_for(lambda: reads)  # the second MiB
        assert broker.metrics()["cold_reads"] == 2
        other.ask(ApiVersionsRequest(), 0)
        reads.pop()()
        (found,) = lagging.receive(asked, 12).responses[0].partitions
        assert len(found.records) > RECORDS * len(VALUE)
    assert not reads


def test_nothing_is_sent_by_the_loop_that_was_not_read_before(
    files: FaultyFiles, broker: Broker, reads: list[Callable[[], object]]
) -> None:
    files.fail("cached", errno=errno.EAGAIN, times=-1, path_contains="cold-0")
    asked = fetch("cold", 0, max_bytes=1 << 24)
    ranges = []
    with Wire(broker) as wire:
        wire.send(asked, 12)
        for _ in range(3):
            wait_for(lambda: reads)
            read = reads.pop()
            assert isinstance(read, functools.partial)
            _, _, start, size = read.args
            ranges.append((start, start + size))
            read()
        (found,) = wire.receive(asked, 12).responses[0].partitions
    assert ranges == [(0, 1 << 20), (1 << 20, 2 << 20), (2 << 20, len(found.records))]


def test_a_client_that_closes_while_its_region_is_read(
    files: FaultyFiles, store: Store, broker: Broker, reads: list[Callable[[], object]]
) -> None:
    files.fail("cached", errno=errno.EAGAIN, times=1, path_contains="cold-0")
    with Wire(broker) as other:
        with Wire(broker) as lagging:
            lagging.send(fetch("cold", 0), 12)
            wait_for(lambda: reads)
        other.ask(fetch("hot", 0), 12)
        reads.pop()()
        other.ask(fetch("hot", 0), 12)
    wait_for(lambda: broker.metrics()["connections"] == 0)


def test_a_region_that_cannot_be_read_closes_its_connection(
    files: FaultyFiles, broker: Broker, reads: list[Callable[[], object]]
) -> None:
    files.fail("cached", errno=errno.EAGAIN, times=1, path_contains="cold-0")
    with Wire(broker) as lagging, Wire(broker) as other:
        lagging.send(fetch("cold", 0), 12)
        wait_for(lambda: reads)
        files.fail("preadv", times=-1, path_contains="cold-0")
        files.fail("sendfile", times=-1, path_contains="cold-0")
        reads.pop()()
        assert lagging.frame() == b""
        other.ask(fetch("hot", 0), 12)


def test_what_is_in_memory_is_asked_for_once_a_mib_and_what_was_just_written_never(
    files: FaultyFiles, store: Store, broker: Broker, reads: list[Callable[[], object]]
) -> None:
    with Wire(broker) as wire:
        wire.ask(fetch("hot", 0, max_bytes=1 << 24), 12)
        assert 1 <= files.counts()["cached"] <= 1 + RECORDS * len(VALUE) // (1 << 20)
        before = files.counts()["cached"]
        for n in range(RECORDS, RECORDS + 3):
            store["hot"].append(b"v")
            wire.ask(fetch("hot", 0, offset=n), 12)
        assert files.counts()["cached"] == before
    assert not reads


def test_the_kernel_says_what_is_in_memory(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        for _ in range(RECORDS):
            topic.append(VALUE)
    with logstore.open(tmp_path / "data") as store:
        region = store["flights"].log(0).replica.locate(0, max_bytes=1 << 24)
        assert region is not None
        region.warm()
        assert not region.is_cold()
        with open(region.file.path, "rb") as file:
            os.posix_fadvise(file.fileno(), 1 << 20, 1 << 19, os.POSIX_FADV_DONTNEED)
        if not region.is_cold():
            pytest.skip("the file system of the tests keeps its files in memory")
        assert not region.is_cold(0, 1 << 19)
        assert region.is_cold(0, 1 << 21)
        assert region.is_cold(1 << 20, 10)
        assert not region.is_cold(region.size)
        region.warm()
        assert not region.is_cold()
        assert not region.is_cold(0, 1)


def test_a_region_whose_ends_were_just_looked_up_is_cold_between_them(tmp_path: Path) -> None:
    small = 8_000
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        for _ in range(200):
            topic.append(b"x" * small)
    with logstore.open(tmp_path / "data") as store:
        replica = store["flights"].log(0).replica
        for size in (40_000, 300_000):
            before = replica.locate(90, max_bytes=size)
            assert before is not None
            with open(before.file.path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if not before.is_cold(size // 2, 1):
                pytest.skip("the file system of the tests keeps its files in memory")
            region = replica.locate(90, max_bytes=size)  # reads the headers at both ends
            assert region is not None
            assert region.is_cold()
