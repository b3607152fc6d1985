"""The records of __consumer_offsets against what Kafka's own classes write for the same commits."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import CorruptRecordError, InvalidGroupError, InvalidOffsetError, OffsetMetadataTooLargeError
from logstore.groups.offsets import (
    OffsetAndMetadata,
    OffsetKey,
    check_commit,
    check_group,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    java_hash,
    partition_of,
)
from logstore.records import TopicPartition
from tests.interop.offset_records import Written, load

each_written = pytest.mark.parametrize("written", load(), ids=lambda w: f"{w.key.group}/{w.found.offset}")
FLIGHTS = TopicPartition("flights", 0)


def text_of(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
commits = st.builds(
    OffsetAndMetadata,
    offset=st.integers(0, 2**63 - 1),
    metadata=st.text(st.characters(codec="utf-8"), max_size=200),
    leader_epoch=st.integers(-1, 2**31 - 1),
    commit_ms=st.integers(0, 2**62),
    expire_ms=st.just(-1),
    topic_id=st.just("") | st.binary(min_size=16, max_size=16).filter(any).map(text_of),
)


@each_written
def test_bytes_are_those_that_kafka_writes(written: Written) -> None:
    assert encode_key(written.key) == written.key_bytes
    assert encode_value(written.found) == written.value_bytes


@each_written
def test_what_kafka_writes_is_read_back(written: Written) -> None:
    assert decode_key(written.key_bytes) == written.key
    assert decode_value(written.value_bytes) == written.found


@each_written
def test_a_group_lies_in_the_partition_where_kafka_looks_for_it(written: Written) -> None:
    assert partition_of(written.key.group, 50) == written.partition_of_50
    assert partition_of(written.key.group, 1) == 0


@pytest.mark.parametrize("version", [0, 2, 3])
def test_values_of_older_versions_are_read(version: int) -> None:
    epoch = (6).to_bytes(4, "big") if version == 3 else b""
    value = version.to_bytes(2, "big") + (77).to_bytes(8, "big") + epoch + b"\0\x04note" + (99).to_bytes(8, "big")
    assert decode_value(value) == OffsetAndMetadata(77, "note", 6 if version == 3 else -1, 99)


def test_tags_of_later_versions_are_stepped_over() -> None:
    plain = encode_value(OffsetAndMetadata(5, commit_ms=1))
    tagged = plain[:-1] + bytes((2, 0, 16)) + bytes(range(16)) + bytes((9, 3)) + b"new"
    assert decode_value(tagged) == OffsetAndMetadata(5, commit_ms=1, topic_id=text_of(bytes(range(16))))


@pytest.mark.parametrize("key", [None, b"", b"\0", b"\0\x02\0\x05group", b"\0\x0bwhatever", b"\xff\xff"])
def test_keys_of_other_kinds_are_no_commits(key: bytes | None) -> None:
    assert decode_key(key) is None


@given(st.builds(OffsetKey, names, st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))), commits)
def test_any_commit_comes_back(key: OffsetKey, found: OffsetAndMetadata) -> None:
    assert decode_key(encode_key(key)) == key
    assert decode_value(encode_value(found)) == found


@given(commits, st.data())
def test_a_value_that_is_cut_anywhere_is_refused(found: OffsetAndMetadata, data: st.DataObject) -> None:
    value = encode_value(found)
    with pytest.raises(CorruptRecordError):
        decode_value(value[: data.draw(st.integers(0, len(value) - 1))])


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (decode_key, decode_value):
        try:
            read(b"\0\x04" + data if read is decode_value else b"\0\x01" + data)
        except CorruptRecordError as error:
            assert "__consumer_offsets" in str(error)


def test_the_hash_is_javas() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "polygenelubricants", "😀")] == [
        *(0, 97, 99_162_322, -(2**31), 1_772_899)
    ]


@pytest.mark.parametrize("group", [None, "", b"crew", 7, "\ud800", "x" * 32_768])
def test_a_group_without_a_usable_name_is_refused(group: object) -> None:
    with pytest.raises(InvalidGroupError) as caught:
        check_group(group)
    assert caught.value.code == 24


@pytest.mark.parametrize("offset", [-1, 2**63, 1.5, True, None, "3"])
def test_offsets_that_no_record_can_have_are_refused(offset: object) -> None:
    with pytest.raises(InvalidOffsetError, match="flights-0"):
        check_commit(FLIGHTS, OffsetAndMetadata(offset))  # type: ignore[arg-type]


def test_metadata_is_measured_as_kafka_measures_it() -> None:
    check_commit(FLIGHTS, OffsetAndMetadata(1, "😀" * 2048))
    with pytest.raises(OffsetMetadataTooLargeError, match="4098") as caught:
        check_commit(FLIGHTS, OffsetAndMetadata(1, "😀" * 2049))
    assert caught.value.code == 12
    for metadata in ("\ud800", "ю" * 20_000):
        with pytest.raises(OffsetMetadataTooLargeError):
            check_commit(FLIGHTS, OffsetAndMetadata(1, metadata), 40_000)
