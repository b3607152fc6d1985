"""What clients of several makes send to a real broker is read from its files by us, while it runs and after."""

from __future__ import annotations

from typing import Any

import pytest

from logstore import Log
from logstore.records import Codec
from tests.interop.broker import Broker
from tests.interop.clients import PYTHON_WRITERS, JavaClient, Read, Row
from tests.interop.make_fixtures import START_MS, several, words

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

#: What every one of these clients can send: null and empty, headers that repeat, more than 64 KiB.
ROWS = [
    Row(START_MS, None, b"no key"),
    Row(START_MS + 1, b"no value", None),
    Row(START_MS + 2, b"", b""),
    Row(START_MS + 3, b"key", b"value", (("twice", b"1"), ("twice", b"2"), ("naïve-ключ", b"\0\xff"))),
    *(Row(START_MS + 4 + n, b"k%d" % n, words(n, 9_000)) for n in range(20)),
    Row(START_MS + 30, b"k" * 130, bytes(range(256))),
]


def read_of(record: Any) -> Read:
    return Read(record.offset, Row(record.timestamp_ms, record.key, record.value, record.headers))


@pytest.mark.row("S7", "M5")
@pytest.mark.parametrize("client", PYTHON_WRITERS)
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_we_read_what_clients_sent_to_a_broker(broker: Broker, java: JavaClient, codec: Codec, client: str) -> None:
    topic = f"{client}-{codec.name.lower()}"
    java.create(topic)
    PYTHON_WRITERS[client](broker.bootstrap, topic, codec.name.lower(), ROWS)
    with Log.open(broker.data / f"{topic}-0", read_only=True) as log:
        assert [read_of(record) for record in log.scan()] == [Read(n, row) for n, row in enumerate(ROWS)]
        views = [view for chunk in log.scan().chunks() for view in chunk.batches()]
        assert {view.codec for view in views} == {codec}
        assert max(len(view.payload()) for view in views) > 1 << 16


@pytest.mark.row("M5")
def test_a_reader_beside_a_broker_sees_what_was_there_when_it_was_opened(broker: Broker, java: JavaClient) -> None:
    """A broker publishes nothing for us: a reader that is opened again sees more."""
    java.create("growing", index_interval_bytes=300)
    java.open("growing", enable_idempotence="true")
    found = []
    for part in range(5):
        found += java.send("growing", "growing", several(20, START_MS + part))
        with Log.open(broker.data / "growing-0", read_only=True) as log:
            assert [read_of(record) for record in log.scan()] == found
            assert log.high_watermark == len(found)
    java.close("growing")
