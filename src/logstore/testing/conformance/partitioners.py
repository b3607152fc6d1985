"""Conformance suite of `Partitioner`."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import defaultdict

from logstore.client.partitioners import Choice, Partitioner
from logstore.testing.stores import temporary_store

_KEYS = [None, b"", b"a", b"AA 1141", b"\xff" * 100, bytearray(b"a"), memoryview(b"a")]


class PartitionerConformance:
    """The suite for a `Partitioner`, a function that replaces it, or the name of a built-in one."""

    #: Whether records with the same key go to the same partition while the number of partitions is the same.
    keys_decide: bool = True

    @abstractmethod
    def make_partitioner(self) -> Partitioner | Choice | str:
        """Return the partitioner to test, a new one for every test."""

    def test_every_record_goes_to_a_partition_that_there_is(self) -> None:
        for count in (1, 2, 7):
            with temporary_store() as store:
                topic = store.create_topic("t", count)
                with store.producer(partitioner=self.make_partitioner()) as producer:
                    futures = [producer.send("t", b"value", key) for key in _KEYS for _ in range(5)]
                assert all(0 <= future.result().partition < count for future in futures)
                assert topic.scan().count() == len(futures)

    def test_a_key_keeps_its_partition(self) -> None:
        places: dict[bytes, set[int]] = defaultdict(set)
        with temporary_store() as store:
            store.create_topic("t", 5)
            for _ in range(2):
                with store.producer(partitioner=self.make_partitioner()) as producer:
                    sent = [(key, producer.send("t", b"v", key)) for key in [b"key %d" % n for n in range(20)] * 10]
                for key, future in sent:
                    places[key].add(future.result().partition)
        if self.keys_decide:
            assert all(len(found) == 1 for found in places.values()), f"a key has changed its partition: {places}"
            assert len(set.union(*places.values())) > 1, "all keys go to one partition"

    def test_several_threads_may_send_at_once(self) -> None:
        failures: list[BaseException] = []
        with temporary_store() as store:
            topic = store.create_topic("t", 3)
            with store.producer(partitioner=self.make_partitioner()) as producer:

                def send() -> None:
                    try:
                        for number in range(100):
                            producer.send("t", b"v", b"%d" % number)
                    except BaseException as error:  # noqa: BLE001  passed to the test's own thread
                        failures.append(error)

                threads = [threading.Thread(target=send) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            assert not failures, failures
            assert topic.scan().count() == 400

    def test_a_topic_that_has_grown_is_used_in_its_new_size(self) -> None:
        with temporary_store() as store:
            store.create_topic("t", 1)
            with store.producer(partitioner=self.make_partitioner()) as producer:
                producer.send("t", b"v", b"k")
                producer.flush()
            store.add_partitions("t", 4)
            with store.producer(partitioner=self.make_partitioner()) as producer:
                futures = [producer.send("t", b"v", b"%d" % n) for n in range(20)]
            assert all(0 <= future.result().partition < 4 for future in futures)
