"""Kafka's protocol: messages as Python objects, and their bytes. Imports no broker, no socket and no log.

Messages are objects of the classes in `logstore.protocol.generated.messages` (`MetadataRequest`, `FetchResponse`,
...). These are the requests of clients and admin tools in Kafka 4.3.1, and their responses. Share groups,
delegation tokens and client telemetry are left out. Fields have Kafka's names in snake case and Kafka's defaults,
and are given by keyword. A nested struct is a class inside the message's class, under Kafka's name:

    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])

Each message class has ``API_KEY``, ``IS_REQUEST``, ``MIN_VERSION``, ``MAX_VERSION``, ``FLEXIBLE_SINCE``,
``encode(version) -> bytes`` and ``decode(buffer, version, position=0)`` (a class method that makes a message).
Types of fields: numbers, str, bool and bytes. Records are any buffer when written; when read they are a memoryview
of the given buffer, without a copy. A uuid is a `str` of the 22 letters that Kafka's tools print, "" for the zero
uuid. An array is any sequence when written and a list when read. A field is None where Kafka allows null.
A field that the version does not carry is left out when written, and has its default when read. `encode` raises
`UnsupportedVersionError` if such a field has another value and Kafka does not mark it as ignorable.

`logstore.protocol.frames` puts a size and a header before a message:

    encode_request(message, version, correlation_id, client_id) -> bytes            # size, header, body
    decode_request(frame, position=0) -> Request                                    # frame without its size
        Request(api_key, version, correlation_id, client_id, message)               # NamedTuple
    encode_response(message, version, correlation_id) -> bytes                      # size, header, body
    decode_response(api_key, version, frame, position=0) -> Response                # frame without its size
        Response(correlation_id, message)                                           # NamedTuple
    frame_size(buffer, position=0, max_bytes=...) -> int                            # checked against max_bytes
    REQUESTS, RESPONSES: Mapping[int, type[Message]]                                # by API key

Malformed bytes raise `MalformedMessageError` (of `logstore.errors`) with the position. Every length is compared
with the number of bytes that are left before anything is read.

Threads: one thread uses a message at a time; any thread may call the functions.
"""
