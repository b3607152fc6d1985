"""Requests in progress are bounded by their bytes: beyond it no connection is read until some are answered."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from logstore.broker import Broker, serve
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import ApiVersionsRequest, FetchRequest
from logstore.store import Store
from tests.broker.test_one_client import asked, fetch
from tests.broker.test_turns import VERSION, answers, batch, produce, values_of
from tests.broker.wire import Wire
from tests.kit.inside import state_of
from tests.kit.waiting import is_readable, wait_for

PRODUCE = 0
FETCH = 1
VERSIONS = 18
LIMIT = 300_000
VALUE = b"v" * 100_000


@pytest.fixture
def broker(store: Store) -> Iterator[Broker]:
    store.create_topic("flights").append(b"opens the log")
    with serve(store, "127.0.0.1:0", queued_max_request_bytes=LIMIT) as broker:
        yield broker


def test_no_connection_is_read_while_too_many_bytes_are_in_progress(store: Store, broker: Broker) -> None:
    loop = broker._loop
    request = encode_request(produce("flights", batch(VALUE)), VERSION, 7, None)
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(broker)) for _ in range(9)]
        versions = wires.pop()
        with state_of(store["flights"].log(0)).lock:
            for wire in wires:
                wire.socket.sendall(request)
            wait_for(lambda: loop.queued_bytes > LIMIT)
            versions.send(ApiVersionsRequest(), 0)
            wait_for(lambda: loop.stopped_count == len(wires) - 1)  # with the third, and that of versions
            turns = loop.turns
            assert not is_readable(versions.socket)
            assert (asked(broker, PRODUCE), asked(broker, VERSIONS)) == (3, 0)
            assert loop.queued_bytes == 3 * len(request)
            assert loop.turns == turns  # it sleeps
        for wire in wires:
            assert answers(wire)[0][0] == 0
        assert versions.receive(ApiVersionsRequest, 0).error_code == 0
    wait_for(lambda: (loop.queued_bytes, loop.received_bytes) == (0, 0))
    assert values_of(store, "flights")[1:] == [VALUE] * 8


def test_what_a_closed_client_has_asked_for_counts_until_it_is_done(store: Store, broker: Broker) -> None:
    loop = broker._loop
    with Wire(broker) as other:
        with state_of(store["flights"].log(0)).lock:
            for number in range(1, 4):
                with Wire(broker) as wire:
                    wire.send(produce("flights", batch(VALUE)), VERSION)
                    wait_for(lambda number=number: loop.queued_bytes > number * len(VALUE))  # type: ignore[misc]
                    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wait_for(lambda: loop.connection_count == 1)
            assert loop.queued_bytes > 2 * len(VALUE)
        other.send(produce("flights", batch(b"v")), VERSION)
        assert answers(other)[0][0] == 0
        wait_for(lambda: (loop.queued_bytes, loop.received_bytes) == (0, 0))


@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_fetch_that_waits_keeps_no_producer_from_being_read(
    store: Store, broker: Broker, session_epoch: int
) -> None:
    begun = fetch("flights", 60_000, offset=1)
    begun.session_epoch = session_epoch
    with Wire(broker) as reader, Wire(broker) as writer:
        for step in range(3):
            reader.send(begun, 12)
            wait_for(lambda count=step + 1: asked(broker, FETCH) == count)  # type: ignore[misc]
            wait_for(lambda: broker._loop.queued_bytes == 0)
            writer.send(produce("flights", batch(b"v")), VERSION)
            assert answers(writer)[0][0] == 0
            found = reader.receive(FetchRequest, 12)
            begun = fetch("flights", 60_000, offset=2 + step)
            begun.session_id, begun.session_epoch = found.session_id, 1 + step if found.session_id else -1
