"""The back end over the files of a store, held to the contract: one that writes, and one beside a writer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

import logstore
from logstore.client.producer import Producer
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import ReadOnlyError
from logstore.records import TopicPartition
from logstore.store.backend import LocalBackend
from logstore.testing import temporary_store
from logstore.testing.conformance import BackendConformance, ProducerConformance
from logstore.testing.conformance.backends import BackendUnderTest


class StoreUnderTest(BackendUnderTest):
    """A store that is written, and the back end of the same or of another one on its directory."""

    def __init__(self, writer: logstore.Store, reader: logstore.Store) -> None:
        self.writer = writer
        self.backend = LocalBackend(reader._host)

    def create(self, topic: str, partitions: int = 1) -> None:
        self.writer.create_topic(topic, partitions)

    def append(self, name: TopicPartition, values: Sequence[bytes], timestamp_ms: int = 0) -> None:
        if values:
            self.writer[name.topic].append_many(values, partition=name.partition, timestamp=timestamp_ms)

    def delete(self, topic: str) -> None:
        self.writer.delete_topic(topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self.writer.add_partitions(topic, total)

    def delete_before(self, name: TopicPartition, offset: int) -> None:
        self.writer[name.topic].delete_records({name.partition: offset})


class TestStore(BackendConformance, ProducerConformance):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path):
        self.root = tmp_path / "data"

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        with logstore.open(self.root) as store:
            yield StoreUnderTest(store, store)


class TestStoreInMemory(BackendConformance, ProducerConformance):
    """The store that tests of programs use: no file of the machine, on a real clock, since the suite waits."""

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        with temporary_store(clock=SYSTEM_CLOCK) as store:
            yield StoreUnderTest(store, store)


class TestReaderBesideAWriter(BackendConformance):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path):
        self.root = tmp_path / "data"

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        with logstore.open(self.root) as store, logstore.open(self.root, read_only=True) as reader:
            yield StoreUnderTest(store, reader)

    def test_a_producer_is_refused(self) -> None:
        with self.under_test() as scene, pytest.raises(ReadOnlyError, match="open read-only"):
            Producer(scene.backend)

    def test_finished_batches_are_refused(self) -> None:
        with self.under_test() as scene, pytest.raises(ReadOnlyError, match=r"open read-only.*to append"):
            scene.backend.batch_appends()
