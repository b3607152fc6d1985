"""Kafka's protocol as bytes and values. Knows no broker, no socket and no log.

Values are classes of `logstore.protocol.generated.messages`, one for each request and response of Kafka 4.3.1
that a client sends or receives (`MetadataRequest`, `FetchResponse`, ...). Fields are Kafka's in snake case, given
by keyword, with Kafka's defaults. A nested struct is a class inside the message's class, under Kafka's name:

    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])

Each message class has ``API_KEY``, ``IS_REQUEST``, ``MIN_VERSION``, ``MAX_VERSION``, ``FLEXIBLE_SINCE``,
``encode(version) -> bytes`` and ``decode(buffer, version, position=0)`` (a class method that makes a message).
Types: numbers, str, bool, bytes; records are any buffer when written and a memoryview of the given buffer
when read, without a copy; a uuid is the 22 letters that Kafka's tools print (`str`), "" for the zero uuid;
an array is any sequence when written and a list when read; None where Kafka allows null.
A field that the version does not carry is left out when written, and has its default when read. If such a field
is not at its default and must not be dropped silently, `encode` raises `UnsupportedVersionError`.

`logstore.protocol.frames` puts the header around a message; every frame begins with its size in four bytes:

    encode_request(message, version, correlation_id, client_id) -> bytes            # size, header, body
    decode_request(frame, position=0) -> Request                                    # frame without its size
        Request(api_key, version, correlation_id, client_id, message)               # NamedTuple
    encode_response(message, version, correlation_id) -> bytes                      # size, header, body
    decode_response(api_key, version, frame, position=0) -> Response                # frame without its size
        Response(correlation_id, message)                                           # NamedTuple
    frame_size(buffer, position=0, max_bytes=...) -> int                            # checked against max_bytes
    REQUESTS, RESPONSES: Mapping[int, type[Message]]                                # by API key

Malformed bytes raise `MalformedMessageError` (of `logstore.errors`) with the position: every length is compared
with the bytes that are left.

Threads: values belong to their caller; the functions may be called from any thread.
"""
