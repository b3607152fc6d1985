"""Headers and sizes: what stands around a message."""

from __future__ import annotations

import pytest

from logstore.errors import MalformedMessageError, ProtocolError, UnsupportedVersionError
from logstore.protocol import frames
from logstore.protocol.generated.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
)
from logstore.protocol.message import Message


def test_a_request_before_flexible_versions_has_header_1() -> None:
    frame = frames.encode_request(MetadataRequest(topics=None), 1, 5, "me")
    assert frame == b"\0\0\0\x10" + b"\0\x03\0\x01" + b"\0\0\0\x05" + b"\0\x02me" + b"\xff\xff\xff\xff"


def test_a_flexible_request_has_header_2_whose_client_id_is_not_compact() -> None:
    frame = frames.encode_request(HeartbeatRequest(), 4, 5, "me")
    assert frame[4:17] == b"\0\x0c\0\x04" + b"\0\0\0\x05" + b"\0\x02me" + b"\0"
    nameless = frames.encode_request(HeartbeatRequest(), 4, -1, None)
    assert nameless[4:15] == b"\0\x0c\0\x04" + b"\xff\xff\xff\xff" + b"\xff\xff" + b"\0"
    assert frames.decode_request(nameless, 4).client_id is None


def test_responses_have_header_0_or_1_and_that_to_api_versions_always_0() -> None:
    assert frames.encode_response(HeartbeatResponse(), 3, 5)[4:8] == b"\0\0\0\x05"
    assert len(frames.encode_response(HeartbeatResponse(), 4, 5)) == 4 + 4 + 1 + 6 + 1
    frame = frames.encode_response(ApiVersionsResponse(), 3, 5)
    assert frame == b"\0\0\0\x0c" + b"\0\0\0\x05" + b"\0\0" + b"\x01" + b"\0\0\0\0" + b"\0"
    assert frames.decode_response(18, 3, frame, 4) == (5, ApiVersionsResponse())


def test_what_is_written_is_read() -> None:
    for kind in frames.REQUESTS.values():
        for version in range(kind.MIN_VERSION, kind.MAX_VERSION + 1):
            frame = frames.encode_request(kind(), version, 9, "client")
            assert frames.request_head(frame, 4) == (kind.API_KEY, version, 9)
            assert frames.decode_request(frame, 4) == (kind.API_KEY, version, 9, "client", kind())
            response = frames.RESPONSES[kind.API_KEY]
            frame = frames.encode_response(response(), version, -9)
            assert frames.decode_response(kind.API_KEY, version, frame[4:]) == (-9, response())


def test_tagged_fields_of_a_header_are_skipped() -> None:
    body = HeartbeatRequest(group_id="g").encode(4)
    frame = b"\0\x0c\0\x04" + b"\0\0\0\x05" + b"\0\x01c" + b"\x01\x00\x02ab" + body
    assert frames.decode_request(frame).message == HeartbeatRequest(group_id="g")
    frame = b"\0\0\0\x05" + b"\x01\x07\x01!" + HeartbeatResponse().encode(4)
    assert frames.decode_response(12, 4, frame) == (5, HeartbeatResponse())


def test_bytes_behind_a_request_are_ignored():
    frame = frames.encode_request(HeartbeatRequest(group_id="g"), 4, 9, "client")[4:] + b"\0\0\0"
    assert frames.decode_request(frame).message == HeartbeatRequest(group_id="g")


def test_the_answer_to_an_unknown_version_of_api_versions_is_read_as_version_0() -> None:
    known = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)
    told = ApiVersionsResponse(error_code=35, api_keys=[known])
    for version in (0, 1, 3, 4):
        assert frames.decode_response(18, version, frames.encode_response(told, 0, 1), 4).message == told
    # The request itself is known by its head, though it cannot be read.
    strange = b"\0\x12" + (99).to_bytes(2, "big") + b"\0\0\0\x07" + b"\0\x01c\0 whatever"
    assert frames.request_head(strange) == (18, 99, 7)
    with pytest.raises(UnsupportedVersionError, match="ApiVersionsRequest has versions 0 to 4, not 99"):
        frames.decode_request(strange)


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="API key 27 is unknown"):
        frames.decode_request(b"\0\x1b\0\0\0\0\0\x01\0\0")
    with pytest.raises(UnsupportedVersionError, match="API key 1000 is unknown"):
        frames.decode_response(1000, 0, b"\0\0\0\x01")


@pytest.mark.parametrize("size", range(14))
def test_a_frame_that_ends_in_its_header_is_refused(size: int) -> None:
    frame = frames.encode_request(HeartbeatRequest(), 4, 5, "me")[4:]
    with pytest.raises(MalformedMessageError):
        frames.decode_request(frame[:size])
    with pytest.raises(MalformedMessageError):
        frames.decode_response(12, 4, frame[: size // 3])


def test_a_header_has_only_what_a_header_may_have() -> None:
    with pytest.raises(MalformedMessageError, match="client_id: length -2"):
        frames.decode_request(b"\0\x0c\0\0\0\0\0\x01\xff\xfe" + HeartbeatRequest().encode(0))
    with pytest.raises(ProtocolError, match="client_id must be a str"):
        frames.encode_request(ApiVersionsRequest(), 0, 1, b"me")  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="client_id must be at most 32767 bytes"):
        frames.encode_request(ApiVersionsRequest(), 0, 1, "x" * 40000)


@pytest.mark.parametrize("kind", [ApiVersionsRequest, MetadataResponse])
def test_requests_and_responses_are_not_mixed_up(kind: type[Message]) -> None:
    message = kind()
    with pytest.raises(TypeError, match=f"{kind.__name__} is no re"):
        frames.encode_response(message, 0, 1) if kind.IS_REQUEST else frames.encode_request(message, 0, 1, None)


def test_the_size_of_a_frame_is_bounded() -> None:
    assert frames.frame_size(b"\0\0\0\x05") == 5
    assert frames.frame_size(b"xx\0\0\0\0", 2) == 0
    assert frames.frame_size(b"\0\0\x01\0", max_bytes=256) == 256
    for size in (b"\0\0\x01\x01", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"):
        with pytest.raises(MalformedMessageError, match=r"a frame of -?\d+ bytes: expected 0 to 256"):
            frames.frame_size(size, max_bytes=256)
    for short in (b"", b"\0\0\0"):
        with pytest.raises(MalformedMessageError, match="size"):
            frames.frame_size(short)
