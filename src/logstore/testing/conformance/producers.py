"""Conformance suite of what a `Producer` does over a back end: one set of tests for a store and for a cluster.

What a producer promises holds for both: the offsets of futures, order, batches, the ways to end. How a back end
meets faults of its own is tested beside it.
"""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import os
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from logstore.batch._batch import Record
from logstore.batch._encode import Encoder
from logstore.batch._key_hash import partition_of
from logstore.client.producer import Producer
from logstore.config.log import Setting
from logstore.dropped import release_all
from logstore.errors import (
    ClientClosedError,
    ConfigError,
    ForkedError,
    InvalidTopicError,
    RecordTooLargeError,
    RecordTypeError,
    StoreClosedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.records import TopicPartition
from logstore.testing.conformance.backends import BackendUnderTest

#: How long an answer may take; only a wrong back end reaches it.
_PATIENCE_S = 30.0

_ONE = TopicPartition("flights", 0)

#: What a closed object of a store raises, and of a cluster.
_CLOSED = (StoreClosedError, ClientClosedError)


class ProducerConformance:
    """The suite for `logstore.client.backend.BatchWriter`, through `Producer`, and for `BatchAppends`."""

    @abstractmethod
    def under_test(self) -> AbstractContextManager[BackendUnderTest]:
        """Return a back end without topics that can be written, open for the time of a `with` block."""

    @contextmanager
    def _scene(self, partitions: int = 1) -> Iterator[BackendUnderTest]:
        with self.under_test() as scene:
            scene.create("flights", partitions)
            scene.backend.topics()
            yield scene

    def _producer(self, scene: BackendUnderTest, **settings: Setting) -> Producer:
        return Producer(scene.backend, settings)

    # -- finished batches

    def test_finished_batches_are_appended_in_order_and_answered_with_their_offsets(self) -> None:
        with self._scene(2) as scene, scene.backend.batch_appends() as appends:
            assert appends.batch_bytes > 0
            places = [TopicPartition("flights", number) for number in range(2)]
            encoder, sent = Encoder().begin(timestamp_ms=1_000), []
            for round in range(6):
                encoder.add_all([b"%d.%d" % (round, n) for n in range(round + 1)])
                # The encoder is taken as it is, and is free at once.
                sent.append(appends.submit(places[round % 2], encoder))
                encoder.renew(1_000)
            nothing = appends.submit(places[0], encoder)
            appends.flush()
            assert [each.record_count for each in sent] == [1, 2, 3, 4, 5, 6]
            assert [(each.first_offset, each.last_offset) for each in sent] == [
                (0, 0), (0, 1), (1, 3), (2, 5), (4, 8), (6, 11),
            ]  # fmt: skip
            assert all(each.is_done and each.error is None for each in [*sent, nothing])
            assert (nothing.record_count, nothing.first_offset) == (0, -1)
            for number, place in enumerate(places):
                wanted = [b"%d.%d" % (round, n) for round in range(number, 6, 2) for n in range(round + 1)]
                assert [record.value for record in _records(scene, place)] == wanted

    def test_a_refused_batch_fails_one_flush_and_no_other_batch(self) -> None:
        with self._scene() as scene, scene.backend.batch_appends() as appends:
            first = appends.submit(_ONE, Encoder().begin(timestamp_ms=1).finish())
            encoder = Encoder().begin(timestamp_ms=1)
            encoder.add(b"a")
            refused = appends.submit(TopicPartition("ships", 0), encoder)
            after = appends.submit(_ONE, encoder.renew(1).finish())
            encoder.renew(1).add(b"b")
            kept = appends.submit(_ONE, encoder)
            with pytest.raises(UnknownTopicError, match="ships"):
                appends.flush()
            assert isinstance(refused.error, UnknownTopicError)
            assert refused.is_done
            assert first.is_done
            assert after.is_done
            assert (kept.first_offset, kept.error) == (0, None)
            appends.flush()
            assert [record.value for record in _records(scene, _ONE)] == [b"b"]
            encoder.renew(1).add(b"c")
            appends.submit(TopicPartition("flights", 7), encoder)
            with pytest.raises(UnknownPartitionError, match="flights"):
                appends.flush()

    def test_closed_appends_take_no_batch(self) -> None:
        with self._scene() as scene:
            for end in ("close", "abandon"):
                appends = scene.backend.batch_appends()
                encoder = Encoder().begin(timestamp_ms=1)
                encoder.add(b"a")
                appends.submit(_ONE, encoder)
                appends.flush()
                for _ in range(2):
                    getattr(appends, end)()
                encoder.renew(1).add(b"b")
                with pytest.raises(_CLOSED):
                    appends.submit(_ONE, encoder)
                with pytest.raises(_CLOSED):
                    appends.flush()
            assert [record.value for record in _records(scene, _ONE)] == [b"a", b"a"]

    def test_what_batches_keep_to_is_told_by_topic(self) -> None:
        with self._scene() as scene:
            scene.create("ships")
            rules = scene.backend.batch_rules(["flights", "ships"])
            assert set(rules) == {"flights", "ships"}
            for config, limits in rules.values():
                assert dict(limits)["max.message.bytes"] == config.max_message_bytes
            encoder = Encoder().begin(timestamp_ms=1, limits=rules["flights"].limits)
            with pytest.raises(RecordTooLargeError):
                encoder.add(b"x" * (rules["flights"].config.max_message_bytes + 1))
            assert scene.backend.batch_rules([]) == {}
            with pytest.raises(UnknownTopicError, match="trains"):
                scene.backend.batch_rules(["flights", "trains"])

    # -- what becomes of a record

    def test_a_record_is_answered_with_its_offset_and_is_there_as_it_was_sent(self) -> None:
        with self._scene() as scene, self._producer(scene) as producer:
            futures = [
                producer.send("flights", b"value", b"key", timestamp=1_700_000_000_000, headers=[("h", b"1")]),
                producer.send("flights", None, b"key"),
                producer.send("flights", b"", None, headers=[("empty", b""), ("none", None)]),
                producer.send("flights", b"x" * 400_000),
            ]
            found = [future.result(_PATIENCE_S) for future in futures]
            assert [(each.topic, each.partition, each.offset) for each in found] == [
                ("flights", 0, offset) for offset in range(4)
            ]
            records = _records(scene, _ONE)
            assert [(record.value, record.key) for record in records] == [
                (b"value", b"key"),
                (None, b"key"),
                (b"", None),
                (b"x" * 400_000, None),
            ]
            assert [list(record.headers) for record in records] == [
                [("h", b"1")],
                [],
                [("empty", b""), ("none", None)],
                [],
            ]
            assert records[0].timestamp_ms == found[0].timestamp_ms == 1_700_000_000_000
            assert found[1].timestamp_ms == records[1].timestamp_ms

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_many_records_stay_in_order_with_each_acks_and_codec(self, acks: str, codec: str) -> None:
        if codec == "snappy":
            pytest.importorskip("cramjam", reason="cramjam is missing: pip install logstore[snappy]")
        with self._scene(3) as scene:
            values = [b"%06d" % n * 10 for n in range(3_000)]
            with self._producer(scene, acks=acks, compression_type=codec, batch_size=4_000) as producer:
                futures = [producer.send("flights", value, partition=n % 3) for n, value in enumerate(values)]
                producer.flush(_PATIENCE_S)
                assert all(future.done() for future in futures)
                assert [future.result().offset for future in futures] == [n // 3 for n in range(3_000)]
            for number in range(3):
                records = _records(scene, TopicPartition("flights", number))
                assert [record.value for record in records] == values[number::3]

    def test_keys_go_where_kafkas_partitioner_puts_them(self) -> None:
        with self._scene(5) as scene, self._producer(scene) as producer:
            keys = [b"key-%d" % n for n in range(200)]
            futures = [producer.send("flights", b"v", key) for key in keys]
            producer.flush(_PATIENCE_S)
            assert [future.result().partition for future in futures] == [partition_of(key, 5) for key in keys]
            # Records without a key share partitions batch by batch, and all of them get some.
            futures = [producer.send("flights", b"v" * 1_000) for _ in range(400)]
            producer.flush(_PATIENCE_S)
            assert {future.result().partition for future in futures} == set(range(5))
            assert producer.partitions_for("flights") == set(range(5))

    @pytest.mark.parametrize("in_flight", [1, 2, 5])
    def test_threads_that_send_together_lose_and_double_nothing(self, in_flight: int) -> None:
        with self._scene(2) as scene:
            settings: dict[str, Setting] = {"max.in.flight.requests.per.connection": in_flight}
            with Producer(scene.backend, settings, linger_ms=1, batch_size=500) as producer:

                def send(thread: int) -> None:
                    for n in range(500):
                        producer.send("flights", b"%d %d" % (thread, n), partition=thread % 2)

                threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
                for each in threads:
                    each.start()
                for each in threads:
                    each.join(_PATIENCE_S)
            for number in range(2):
                values = [record.value or b"" for record in _records(scene, TopicPartition("flights", number))]
                for thread in (number, number + 2):
                    own = [int(value.split()[1]) for value in values if value.startswith(b"%d " % thread)]
                    assert own == list(range(500))
                assert len(values) == 1_000

    # -- when it is written

    def test_a_batch_lingers_and_is_written_when_it_is_full_or_flushed(self) -> None:
        with self._scene() as scene, self._producer(scene, linger_ms=3_600_000, batch_size=1_000) as producer:
            first = producer.send("flights", b"v" * 100)
            with pytest.raises(concurrent.futures.TimeoutError):
                next(concurrent.futures.as_completed([first], 0.1))
            assert producer.metrics().buffered_bytes
            for _ in range(12):
                producer.send("flights", b"v" * 100)
            assert first.result(_PATIENCE_S).offset == 0
            last = producer.send("flights", b"w" * 10)
            producer.flush(_PATIENCE_S)
            assert last.done()
            metrics = producer.metrics()
            assert (metrics.records, metrics.failed_records, metrics.buffered_bytes) == (14, 0, 0)
            assert metrics.batches <= 4

    def test_a_lingering_batch_is_written_by_itself(self) -> None:
        with self._scene() as scene, self._producer(scene, linger_ms=20) as producer:
            assert producer.send("flights", b"v").result(_PATIENCE_S).offset == 0

    def test_callbacks_and_waits_of_the_library_work_with_futures(self) -> None:
        with self._scene() as scene, self._producer(scene) as producer:
            called = threading.Event()
            futures = [producer.send("flights", b"v") for _ in range(10)]
            futures[3].add_done_callback(lambda future: called.set())
            done, left = concurrent.futures.wait(futures, _PATIENCE_S)
            assert (len(done), len(left)) == (10, 0)
            assert called.wait(_PATIENCE_S)

    # -- what is refused

    def test_records_that_cannot_be_sent_are_refused_and_others_go_on(self) -> None:
        with self._scene() as scene, self._producer(scene) as producer:
            with pytest.raises(UnknownTopicError, match="ships"):
                producer.send("ships", b"v")
            with pytest.raises(UnknownTopicError, match="ships"):
                producer.partitions_for("ships")
            with pytest.raises(UnknownPartitionError):
                producer.send("flights", b"v", partition=1)
            with pytest.raises((InvalidTopicError, UnknownTopicError)):
                producer.send("no/name", b"v")
            with pytest.raises(RecordTypeError):
                producer.send("flights", "text")  # type: ignore[arg-type]  # refused
            with pytest.raises(RecordTooLargeError):
                producer.send("flights", b"v" * 1_100_000)
            assert producer.send("flights", b"good").result(_PATIENCE_S).offset == 0

    def test_settings_that_are_wrong_are_named(self) -> None:
        with self._scene() as scene:
            with pytest.raises(ConfigError, match=r"batch\.sizes"):
                self._producer(scene, **{"batch.sizes": 1})
            with pytest.raises(ConfigError, match="acks"):
                self._producer(scene, acks="some")

    # -- how it ends

    def test_a_closed_producer_has_written_everything_and_refuses_more(self) -> None:
        with self._scene() as scene:
            producer = self._producer(scene, linger_ms=3_600_000)
            future = producer.send("flights", b"v")
            producer.close(_PATIENCE_S)
            producer.close()
            assert future.done()
            assert future.result().offset == 0
            with pytest.raises(StoreClosedError):
                producer.send("flights", b"v")
            assert len(_records(scene, _ONE)) == 1

    def test_a_producer_that_is_dropped_is_flushed_and_warns(self) -> None:
        with self._scene() as scene:
            with pytest.warns(ResourceWarning, match=r"dropped without close\(\): it has been flushed"):  # noqa: PT031
                future = self._producer(scene, linger_ms=3_600_000).send("flights", b"v")
                gc.collect()
                release_all()
            assert future.result(0).offset == 0

    def test_a_forked_process_cannot_use_it(self) -> None:
        with self._scene() as scene, self._producer(scene) as producer:
            producer.send("flights", b"v").result(_PATIENCE_S)
            reader, writer = multiprocessing.Pipe(duplex=False)
            child = os.fork()
            if child == 0:
                said = "nothing was raised"
                try:
                    producer.send("flights", b"of the child")
                except ForkedError as error:
                    said = f"ForkedError: {error}"
                finally:
                    writer.send(said)
                    os._exit(0)
            assert reader.poll(_PATIENCE_S)
            assert reader.recv().startswith("ForkedError: the producer was opened before a fork")
            os.waitpid(child, 0)
            assert producer.send("flights", b"v").result(_PATIENCE_S).offset == 1

    # -- topics that change

    def test_partitions_that_are_added_are_used(self) -> None:
        with self._scene(1) as scene, self._producer(scene, linger_ms=0) as producer:
            producer.send("flights", b"v").result(_PATIENCE_S)
            scene.add_partitions("flights", 3)
            scene.backend.topics()
            for number in range(3):
                assert producer.send("flights", b"v", partition=number).result(_PATIENCE_S).partition == number
            assert producer.partitions_for("flights") == {0, 1, 2}

    def test_a_topic_that_is_made_again_gets_only_what_is_sent_to_it(self) -> None:
        with self._scene() as scene, self._producer(scene, linger_ms=3_600_000) as producer:
            before = producer.send("flights", b"before")
            scene.delete("flights")
            scene.create("flights")
            scene.backend.topics()
            producer.flush(_PATIENCE_S)
            after = producer.send("flights", b"after")
            producer.flush(_PATIENCE_S)
            assert after.result(_PATIENCE_S).offset == 0
            with pytest.raises(UnknownTopicError, match="deleted"):
                before.result(0)
            assert [record.value for record in _records(scene, _ONE)] == [b"after"]


def _records(scene: BackendUnderTest, name: TopicPartition) -> list[Record]:
    return [record.copy() for batches in scene.backend.partition(name).scan().chunks() for record in batches]
