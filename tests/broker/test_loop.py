"""The loop of a broker by itself: which connection an event is of."""

from __future__ import annotations

import socket
import struct
import threading

from logstore.broker._loop import Answer, ClientConnection, Loop
from logstore.io._notifier import Notifier


class Closing:
    """A handler that answers a frame with itself, and closes another connection on ``close``."""

    def __init__(self) -> None:
        self.victim: ClientConnection | None = None
        self.connections: list[ClientConnection] = []

    def request(self, answer: Answer, frame: bytes) -> None:
        self.connections.append(answer.connection)
        if frame == b"close":
            assert self.victim is not None
            self.victim.close()
        answer.complete([frame_of(frame)])

    def closed(self, connection: ClientConnection) -> None: ...

    def notified(self, notifier: Notifier) -> None: ...

    def waits_for(self, connection: ClientConnection, notifier: Notifier) -> bool:
        return False


def frame_of(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def test_an_event_of_a_closed_connection_is_not_one_of_the_next_with_its_descriptor() -> None:
    """The kernel tells of several sockets at once: of one that was closed meanwhile, too."""
    handler = Closing()
    loop = Loop(handler, max_frame_bytes=100, max_received_bytes=1000, max_connections=10)
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    loop.listen(listener)
    thread = threading.Thread(target=loop.run)
    thread.start()
    stopped, goes_on = threading.Event(), threading.Event()

    def stop() -> None:
        stopped.set()
        assert goes_on.wait(20)

    def ask(client: socket.socket, data: bytes) -> bytes:
        client.sendall(frame_of(data))
        return client.recv(100)

    try:
        with socket.create_connection(address, 20) as closing, socket.create_connection(address, 20) as old:
            assert ask(closing, b"one") == frame_of(b"one")
            assert ask(old, b"two") == frame_of(b"two")
            handler.victim = handler.connections[1]
            descriptor = handler.victim.socket.fileno()
            loop.post(stop)
            assert stopped.wait(20)
            # In this order the loop is told: it closes the old one, accepts the new one, and hears of the old one.
            closing.sendall(frame_of(b"close"))
            with socket.create_connection(address, 20) as new:
                old.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                old.close()
                with new.dup():  # the least number that is free is then the one of the loop's socket
                    goes_on.set()
                    assert ask(new, b"three") == frame_of(b"three")
                assert handler.connections[-1].socket.fileno() == descriptor
                assert handler.victim.is_closed
    finally:
        goes_on.set()
        loop.stop()
        thread.join()
