"""Frames that real clients and a real Kafka have exchanged: read whole, written again to the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logstore.batch._batch import Batches
from logstore.protocol import frames
from logstore.protocol.generated.messages import (
    ApiVersionsResponse,
    FetchResponse,
    MetadataResponse,
    ProduceRequest,
)


class Golden(NamedTuple):
    api_key: int
    version: int
    kind: str
    client: str
    frame: bytes


def _golden() -> list[Golden]:
    lines = Path(__file__).with_name("golden.txt").read_text().splitlines()
    words = (line.split() for line in lines if not line.startswith("#"))
    return [
        Golden(int(key), int(version), kind, client, bytes.fromhex(data))
        for key, version, kind, client, data in words
    ]


GOLDEN = _golden()


def _message(api_key: int, version: int, kind: str) -> Any:
    (one,) = (one for one in GOLDEN if one[:3] == (api_key, version, kind))
    if kind == "request":
        return frames.decode_request(one.frame, frames.SIZE_BYTES).message
    return frames.decode_response(api_key, version, one.frame, frames.SIZE_BYTES).message


@pytest.mark.parametrize("one", GOLDEN, ids=lambda one: f"{one.api_key}-v{one.version}-{one.kind}-{one.client}")
def test_a_recorded_frame_is_read_and_written_to_the_same_bytes(one: Golden) -> None:
    assert frames.frame_size(one.frame) == len(one.frame) - frames.SIZE_BYTES
    if one.kind == "request":
        request = frames.decode_request(one.frame, frames.SIZE_BYTES)
        assert (request.api_key, request.version) == (one.api_key, one.version)
        written = frames.encode_request(request.message, one.version, request.correlation_id, request.client_id)
    else:
        response = frames.decode_response(one.api_key, one.version, one.frame, frames.SIZE_BYTES)
        written = frames.encode_response(response.message, one.version, response.correlation_id)
    assert written == one.frame


def test_kafka_announces_what_the_table_has() -> None:
    response: ApiVersionsResponse = _message(18, 4, "response")
    announced = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    for key, kind in frames.REQUESTS.items():
        first, last = announced[key]
        # Kafka announces Produce from 0 on, for old librdkafka, though it takes 3 and newer only.
        assert (0 if key == ProduceRequest.API_KEY else kind.MIN_VERSION, kind.MAX_VERSION) == (first, last)
    assert "metadata.version" in {feature.name for feature in response.finalized_features}


def test_what_the_recorded_frames_say() -> None:
    metadata: MetadataResponse = _message(3, 13, "response")
    assert [(broker.node_id, broker.host) for broker in metadata.brokers] == [(1, "127.0.0.1")]
    produce: Any = _message(0, 13, "request")
    (topic,) = produce.topic_data
    assert (produce.acks, topic.name, len(topic.topic_id)) == (-1, "", 22)
    values = [record.value for record in Batches(bytes(topic.partition_data[0].records))]
    assert values == [b"one", b"two"]
    for version in (11, 12, 16, 18):
        fetched: FetchResponse = _message(1, version, "response")
        sizes = [len(bytes(p.records or b"")) for topic in fetched.responses for p in topic.partitions]  # type: ignore[arg-type]
        assert sum(sizes) > 0
