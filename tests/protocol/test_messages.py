"""Values and bytes: what is taken, what is refused and with which words."""

from __future__ import annotations

import array
from random import Random
from typing import Any

import pytest

from codegen import table
from logstore.errors import LogstoreError, MalformedMessageError, ProtocolError, UnsupportedVersionError
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    CreatePartitionsRequest,
    DescribeClientQuotasResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    SaslAuthenticateRequest,
)
from tests.protocol import made

Topic = MetadataRequest.MetadataRequestTopic


# --- hostile bytes -----------------------------------------------------------------------------


@pytest.mark.parametrize("message", made.TABLE, ids=made.NAMES)
def test_a_message_cut_at_any_byte_is_refused_with_the_place(message: table.Message) -> None:
    kind = made.python_class(message)
    for version in range(message.versions.first, message.versions.last + 1):
        data = made.value_of(message, version, Random(f"{message.name} {version}")).encode(version)
        for size in range(len(data)):
            with pytest.raises(MalformedMessageError) as raised:
                kind.decode(data[:size], version)
            assert 0 <= raised.value.position <= size


@pytest.mark.parametrize("message", made.TABLE, ids=made.NAMES)
def test_flipped_bytes_are_taken_or_refused(message: table.Message) -> None:
    kind = made.python_class(message)
    rng = Random(message.name)
    for version in (message.versions.first, message.versions.last):
        data = made.value_of(message, version, rng).encode(version)
        for place in range(len(data)):
            for byte in (0x00, 0x7F, 0x80, 0xFF, data[place] ^ 1):
                changed = data[:place] + bytes([byte]) + data[place + 1 :]
                try:
                    value = kind.decode(changed, version)
                except MalformedMessageError:
                    continue
                written = value.encode(version)
                assert kind.decode(written, version).encode(version) == written  # no number equals no number


def test_random_bytes_are_taken_or_refused() -> None:
    rng = Random(6)
    for message, version in made.VERSIONS:
        kind = made.python_class(message)
        for _ in range(20):
            try:
                kind.decode(rng.randbytes(rng.randrange(80)), version)
            except MalformedMessageError:
                pass


def test_a_count_beyond_the_bytes_is_refused_before_anything_is_made() -> None:
    with pytest.raises(MalformedMessageError, match="topics: needs 2147483647 bytes, 1 are left"):
        MetadataRequest.decode(b"\x7f\xff\xff\xff\x00", 1)
    with pytest.raises(MalformedMessageError, match="topics: needs 4294967294 bytes"):
        MetadataRequest.decode(b"\xff\xff\xff\xff\x0f", 9)
    # As many bytes as numbers are there, but a number has four.
    data = bytearray(MetadataResponse().encode(8))
    data = b"\0" * 4 + b"\0\0\0\0" + b"\xff\xff" + b"\0" * 4 + b"\0\0\0\1" + b"\0\0" + b"\0\1t\0" + b"\0\0\0\1"
    data += b"\0\0" + b"\0" * 12 + b"\0\0\0\x09" + b"\0" * 20
    with pytest.raises(MalformedMessageError, match="replica_nodes: needs 36 bytes, 20 are left"):
        MetadataResponse.decode(data, 8)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x80\x80\x80\x80\x80\x01", "more than five bytes"),
        (b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
        (b"\x80\x80", "ends before its last byte"),
    ],
)
def test_a_varint_is_at_most_32_bits(data: bytes, problem: str) -> None:
    with pytest.raises(MalformedMessageError, match=problem):
        MetadataRequest.decode(data, 9)


def test_null_is_refused_where_the_version_does_not_know_it() -> None:
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None
    with pytest.raises(MalformedMessageError, match="topics: null, which this version does not allow"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    with pytest.raises(MalformedMessageError, match="topics: length -2"):
        MetadataRequest.decode(b"\xff\xff\xff\xfe", 1)


def test_bytes_behind_the_message_are_refused() -> None:
    with pytest.raises(MalformedMessageError, match="3 bytes more than it has"):
        HeartbeatRequest.decode(HeartbeatRequest().encode(0) + b"abc", 0)


def test_text_that_is_no_utf_8_or_too_long_is_refused() -> None:
    data = HeartbeatRequest(group_id="abc").encode(0)
    with pytest.raises(MalformedMessageError, match="group_id: no UTF-8"):
        HeartbeatRequest.decode(data.replace(b"abc", b"a\xffc"), 0)
    long = b"\x81\x80\x02" + b"x" * 0x8000  # 32768, one more than an int16 holds
    with pytest.raises(MalformedMessageError, match="group_id: a string of 32768 bytes"):
        HeartbeatRequest.decode(long + b"\0" * 10, 4)


def test_a_position_outside_of_the_bytes_is_a_mistake_of_the_caller() -> None:
    for position in (-1, 5):
        with pytest.raises(ValueError, match="outside of 4 bytes"):
            MetadataRequest.decode(b"\0\0\0\0", 0, position)


# --- tagged fields -----------------------------------------------------------------------------


def test_unknown_tagged_fields_are_skipped() -> None:
    data = HeartbeatRequest(group_id="g").encode(4)
    assert data[-1] == 0
    more = data[:-1] + b"\x02" + b"\x09\x03abc" + b"\xff\xff\x03\x00"
    assert HeartbeatRequest.decode(more, 4) == HeartbeatRequest(group_id="g")
    # Beside tags that we know.
    known = FetchRequest(cluster_id="c").encode(12)
    assert known.endswith(b"\x01\x00\x02\x02c")
    assert FetchRequest.decode(known[:-5] + b"\x02\x00\x02\x02c\x63\x01!", 12) == FetchRequest(cluster_id="c")


def test_a_tagged_field_that_is_not_as_long_as_it_says_is_refused() -> None:
    known = FetchRequest(cluster_id="c").encode(12)
    with pytest.raises(MalformedMessageError, match="1 bytes more than its value"):
        FetchRequest.decode(known[:-5] + b"\x01\x00\x03\x02c!", 12)
    with pytest.raises(MalformedMessageError, match="cluster_id"):
        FetchRequest.decode(known[:-5] + b"\x01\x00\x01\x02c", 12)
    with pytest.raises(MalformedMessageError, match="tagged field: needs 100 bytes"):
        FetchRequest.decode(known[:-5] + b"\x01\x00\x64\x02c", 12)


def test_tagged_fields_at_their_defaults_are_not_written() -> None:
    Partition = FetchResponse.PartitionData
    plain = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[Partition()])])
    leader = FetchResponse.LeaderIdAndEpoch(leader_id=1)
    told = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[Partition(current_leader=leader)])]
    )
    assert len(told.encode(12)) == len(plain.encode(12)) + 2 + 9
    decoded: Any = FetchResponse.decode(plain.encode(12), 12)
    assert decoded.responses[0].partitions[0].current_leader == FetchResponse.LeaderIdAndEpoch()
    # In a long tagged field the size takes two bytes, which move what has been written.
    ends = [ProduceResponse.NodeEndpoint(node_id=n, host="h" * 100, port=9092) for n in range(200)]
    response = ProduceResponse(node_endpoints=ends)
    assert ProduceResponse.decode(response.encode(10), 10) == response


# --- what a version carries --------------------------------------------------------------------


def test_a_field_that_must_not_be_dropped_is_refused_in_a_version_without_it() -> None:
    with pytest.raises(UnsupportedVersionError, match="allow_auto_topic_creation is not in version 3"):
        MetadataRequest(topics=[], allow_auto_topic_creation=False).encode(3)
    assert MetadataRequest(topics=[]).encode(3) == b"\0\0\0\0"
    state = FetchRequest.ReplicaState(replica_id=4)
    with pytest.raises(UnsupportedVersionError, match="replica_state is not in version 14"):
        FetchRequest(replica_state=state).encode(14)
    # A field that may be dropped is dropped, and is at its default when read.
    assert FetchRequest.decode(FetchRequest(rack_id="r").encode(10), 10) == FetchRequest()


def test_a_version_that_is_none_is_refused() -> None:
    for version in (-1, 5, 2**31 - 1):
        with pytest.raises(UnsupportedVersionError, match="ApiVersionsRequest has versions 0 to 4, not "):
            ApiVersionsRequest().encode(version)
        with pytest.raises(UnsupportedVersionError, match="ApiVersionsRequest has versions 0 to 4, not "):
            ApiVersionsRequest.decode(b"", version)
    assert UnsupportedVersionError.code == 35


def test_none_is_refused_where_the_version_has_no_null() -> None:
    with pytest.raises(UnsupportedVersionError, match="topics cannot be None in version 0"):
        MetadataRequest(topics=None).encode(0)


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (HeartbeatRequest(generation_id=2**31), "generation_id must be an integer from -2147483648 to 2147483647"),
        (HeartbeatRequest(generation_id=2**70), "generation_id must be an integer"),
        (HeartbeatRequest(generation_id="1"), "generation_id must be an integer"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=1.5), "generation_id must be an integer"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=b"g"), "group_id must be a str"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="\ud800"), "group_id must be a str without lone surrogates"),
        (HeartbeatRequest(group_id="x" * 40000), "group_id must be at most 32767 bytes as UTF-8, not 'xxx"),
        (HeartbeatRequest(group_id="é" * 16384), "group_id must be at most 32767 bytes as UTF-8"),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_refused(value: HeartbeatRequest, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as raised:
        value.encode(0)
    assert isinstance(raised.value, LogstoreError)
    assert len(str(raised.value)) < 200


def test_arrays_take_any_sequence_but_text() -> None:
    expected = MetadataRequest(topics=[Topic(name="a")])
    assert MetadataRequest(topics=(Topic(name="a"),)) == expected
    assert MetadataRequest(topics=(Topic(name="a"),)).encode(1) == expected.encode(1)
    with pytest.raises(ProtocolError, match="topics must be a sequence"):
        MetadataRequest(topics="ab").encode(1)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="topics must be a sequence"):
        MetadataRequest(topics=7).encode(1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "!", "é" * 11, "=" * 22, "A" * 20 + "+A"]
)
def test_a_uuid_is_22_letters_or_nothing(text: str) -> None:
    with pytest.raises(ProtocolError, match="topic_id must be the 22 letters of a uuid"):
        MetadataRequest(topics=[Topic(topic_id=text, name=None)]).encode(12)


def test_a_uuid_is_spelled_as_kafka_spells_it() -> None:
    rng = Random(1)
    for raw in (*(rng.randbytes(16) for _ in range(50)), b"\0" * 15 + b"\1", b"\xff" * 16, bytes(16)):
        data = MetadataRequest(topics=[Topic(topic_id=made.uuid(raw), name=None)]).encode(12)
        assert raw in data
        decoded: Any = MetadataRequest.decode(data, 12)
        assert decoded.topics[0].topic_id == made.uuid(raw)


def test_records_are_views_of_the_given_buffer() -> None:
    records = b"r" * 5000
    request = ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="t",
                partition_data=[ProduceRequest.PartitionProduceData(index=n, records=records) for n in (0, 1)],
            )
        ]
    )
    data = bytearray(request.encode(9))
    for source in (data, memoryview(data), bytes(data)):
        decoded: Any = ProduceRequest.decode(source, 9)
        view = decoded.topic_data[0].partition_data[1].records
        assert isinstance(view, memoryview)
        assert view == records
        assert view.obj is (source.obj if isinstance(source, memoryview) else source)
    decoded = ProduceRequest.decode(data, 9)
    data[data.index(b"rrr")] = 0x21
    assert decoded.topic_data[0].partition_data[0].records[0] == 0x21
    for buffer in (bytearray(b"xyz"), memoryview(b"xyz"), array.array("B", b"xyz")):
        request.topic_data[0].partition_data[0].records = buffer
        assert b"xyz" in request.encode(9)
    for wrong in ("text", 7, memoryview(b"abcdef")[::2]):
        request.topic_data[0].partition_data[0].records = wrong
        with pytest.raises(ProtocolError, match="records must be bytes or a contiguous buffer"):
            request.encode(9)


def test_a_buffer_of_wider_items_is_read_by_its_bytes() -> None:
    request = ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="t", partition_data=[ProduceRequest.PartitionProduceData(records=b"abcd")]
            )
        ]
    )
    data = request.encode(3)
    for more in range(4):
        request.topic_data[0].name = "t" * (more + 1)
        data = request.encode(3)
        if len(data) % 4 == 0:
            break
    decoded: Any = ProduceRequest.decode(array.array("I", data), 3)
    assert bytes(decoded.topic_data[0].partition_data[0].records) == b"abcd"


def test_bytes_are_copied() -> None:
    data = bytearray(SaslAuthenticateRequest(auth_bytes=b"secret").encode(2))
    decoded: Any = SaslAuthenticateRequest.decode(data, 2)
    data[:] = bytes(len(data))
    assert decoded.auth_bytes == b"secret"
    assert isinstance(decoded.auth_bytes, bytes)


def test_a_struct_that_may_be_null() -> None:
    Heartbeat = ConsumerGroupHeartbeatResponse
    for assignment in (
        None,
        Heartbeat.Assignment(),
        Heartbeat.Assignment(topic_partitions=[Heartbeat.TopicPartitions()]),
    ):
        value = Heartbeat(assignment=assignment)
        assert Heartbeat.decode(value.encode(0), 0) == value
    assert CreatePartitionsRequest.CreatePartitionsTopic(assignments=None).assignments is None


def test_numbers_of_every_kind_keep_their_value() -> None:
    Quota = DescribeClientQuotasResponse
    for number in (0.1, -0.0, float("inf"), 5):
        value = Quota(entries=[Quota.EntryData(values=[Quota.ValueData(key="k", value=number)])])
        decoded: Any = Quota.decode(value.encode(1), 1)
        assert decoded.entries[0].values[0].value == number
    with pytest.raises(ProtocolError, match="value must be a number"):
        Quota(entries=[Quota.EntryData(values=[Quota.ValueData(value="1")])]).encode(1)  # type: ignore[arg-type]
    ports = ConsumerGroupHeartbeatResponse  # every other kind: tests/protocol/test_oracle.py
    assert ports.decode(ports(heartbeat_interval_ms=-1).encode(0), 0).heartbeat_interval_ms == -1


def test_values_compare_and_show_their_fields() -> None:
    one = ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, max_version=12)])
    same = ApiVersionsResponse(api_keys=(ApiVersionsResponse.ApiVersion(api_key=3, max_version=12),))
    assert one == same
    assert one != ApiVersionsResponse()
    assert one != "other"
    assert "ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=12)" in repr(one)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.surprise = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="surprise"):
        ApiVersionsResponse(surprise=1)  # type: ignore[call-arg]


def test_no_two_values_share_what_can_be_changed() -> None:
    decoded: Any = FetchResponse.decode(FetchResponse().encode(4), 4)
    other: Any = FetchResponse.decode(FetchResponse().encode(4), 4)
    decoded.responses.append(1)
    assert other.responses == []
    assert FetchRequest().replica_state is not FetchRequest().replica_state
    old = FetchRequest().encode(4)
    assert FetchRequest.decode(old, 4).replica_state is not FetchRequest.decode(old, 4).replica_state
