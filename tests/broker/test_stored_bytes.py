"""A batch goes from its producer's socket to the disk, and from there to its consumer's, as it is."""

from __future__ import annotations

import hashlib

import pytest

from logstore.batch._encode import encode
from logstore.broker import Broker
from logstore.protocol.generated.messages import FetchRequest, ProduceRequest
from logstore.records import Codec
from logstore.store import Store
from tests.broker.wire import Wire

#: Behind the base offset, the size and the leader epoch, which a broker sets; the checksum covers what follows it.
OWN = 16


def _hash(batch: bytes) -> str:
    return hashlib.sha256(batch[OWN:]).hexdigest()


@pytest.mark.row("S5", part="served by logstore")
@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_is_the_same_on_the_wire_on_the_disk_and_in_the_answer_of_a_fetch(
    store: Store, broker: Broker, codec: Codec
) -> None:
    topic = store.create_topic("flights")
    sent = [bytes(encode([(b"key", b"value %d" % n * 50, 1_000 + n)] * 9, codec=codec)) for n in range(20)]
    with Wire(broker) as wire:
        for batch in sent:
            data = ProduceRequest.PartitionProduceData(index=0, records=batch)
            asked = ProduceRequest.TopicProduceData(name="flights", partition_data=[data])
            found = wire.ask(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[asked]), 9)
            assert found.responses[0].partition_responses[0].error_code == 0
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic="flights", partitions=[part])],
        )
        fetched = bytes(wire.ask(fetch, 12).responses[0].partitions[0].records)
    (segment,) = topic.log(0).maintenance.segments
    with open(segment.path, "rb") as file:
        stored = file.read(segment.size)
    assert fetched == stored
    at, found_hashes = 0, []
    while at < len(stored):
        end = at + 12 + int.from_bytes(stored[at + 8 : at + 12], "big")
        found_hashes.append(_hash(stored[at:end]))
        at = end
    assert found_hashes == [_hash(batch) for batch in sent]
