"""What members say and are given, as bytes: Java's, and refused if malformed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import LogstoreError, MalformedMessageError
from logstore.groups.assignors.embedded import (
    MemberAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from logstore.groups.assignors.members import GroupMember
from logstore.groups.assignors.user_data import (
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from logstore.records import TopicPartition
from tests.interop import assignors

MEMBER = GroupMember(("größe", "x"), (TopicPartition("x", 0), TopicPartition("x", 7)), 12, None, "east", b"\0\1")


def test_our_bytes_are_javas() -> None:
    found = assignors.load_bytes()
    assert len(found) == 20
    for saying, answer in found:
        assert assignors.are_javas(saying, answer), saying


def test_a_version_leaves_out_what_it_does_not_have() -> None:
    read = [decode_subscription(encode_subscription(MEMBER, version)) for version in range(4)]
    assert read[3] == MEMBER
    assert read[2] == MEMBER._replace(rack_id=None)
    assert read[1] == MEMBER._replace(rack_id=None, generation=-1)
    assert read[0] == MEMBER._replace(rack_id=None, generation=-1, owned=())


def test_a_later_version_is_read_as_the_newest_known() -> None:
    said = encode_subscription(MEMBER)
    assert decode_subscription(b"\0\x09" + said[2:] + b"new fields", "host") == MEMBER._replace(instance_id="host")
    given_out = encode_assignment(MEMBER.owned, b"x")
    assert decode_assignment(b"\0\x09" + given_out[2:] + b"new") == MemberAssignment(MEMBER.owned, b"x")
    assert decode_assignment(b"") == MemberAssignment(())


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
def test_a_cut_is_refused_at_every_byte(decode) -> None:
    whole = encode_subscription(MEMBER) if decode is decode_subscription else encode_assignment(MEMBER.owned, b"x")
    decode(whole)
    for size in range(1, len(whole)):
        with pytest.raises(MalformedMessageError):
            decode(whole[:size])


@pytest.mark.parametrize(
    "data",
    [
        "ffff 00000000 ffffffff",  # version -1
        "0003 7fffffff",  # a count that no bytes follow
        "0003 fffffffe",
        "0003 00000001 0001 78 00000001 ffffffff ffffffff",  # partition -1
    ],
)
def test_hostile_bytes_are_refused(data: str) -> None:
    with pytest.raises(MalformedMessageError):
        decode_assignment(bytes.fromhex(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except LogstoreError:
            pass
    decode_sticky(data)
    decode_cooperative(data)


def test_user_data_of_sticky_has_two_versions() -> None:
    assert decode_sticky(encode_sticky(MEMBER.owned, 12)) == ([*MEMBER.owned], 12)
    assert decode_sticky(encode_sticky(MEMBER.owned, 12, 0)) == ([*MEMBER.owned], -1)
    assert decode_sticky(None) is decode_sticky(b"\0\0\0\5") is None
    assert decode_cooperative(encode_cooperative(12)) == 12
    assert decode_cooperative(None) == decode_cooperative(b"\0\0") == -1
