"""Frames to a broker that runs: good requests that were changed, and every key with random bodies.

A broker answers a frame or closes its connection, and both are fine. A finding is one that does neither, that fails
in words of its own, or stores what it was sent: no batch of the seeds is a good one, so no log may grow.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import socket
import struct
import tempfile
from random import Random

import logstore
from logstore import errors
from logstore.broker import Broker, serve
from logstore.broker.requests import FAMILIES
from logstore.errors import ProtocolError
from logstore.protocol import frames
from logstore.protocol.generated.messages import ApiVersionsRequest
from logstore.store import Store
from tests.fuzz.mutate import Mutator
from tests.protocol import made

_SILENT_S = 20.0
_PARKED_S = 0.02  #: for the answer to a fetch, which may be told to wait for a month
_FETCH = 1
#: Topics that changed requests have made; more are deleted.
_MOST_TOPICS = 30
_BEHIND = 0x0FEDCBA9  #: the correlation id of the request behind each input
_PROBE = frames.encode_request(ApiVersionsRequest(), 0, _BEHIND, None)
_logger = logging.getLogger("logstore.broker")


class BrokerStuckError(Exception):
    """The broker neither answers nor closes the connection, or has stored what it was sent."""


def request_seeds() -> list[bytes]:
    """Return a request of each key and version that is served, without its size."""
    seeds = []
    for message, version in made.VERSIONS:
        kind = made.python_class(message)
        family = FAMILIES.get(kind.API_KEY) if message.is_request else None
        if family is None or not family.min_version <= version <= family.max_version:
            continue
        value = made.value_of(message, version, Random(f"{message.name} {version}"))
        seeds.append(frames.encode_request(value, version, 7, "client", sized=False))
    return seeds


def changed_request(m: Mutator, seeds: list[bytes]) -> bytes:
    """Return a frame without its size; most have a head that is served, so that bodies are reached."""
    if m.chance(0.3):
        keys = list(FAMILIES)
        key = keys[m.below(len(keys))]
        family = FAMILIES[key]
        version = family.min_version + m.below(family.max_version - family.min_version + 1)
        body = bytes(m.bits(8) if m.chance(0.4) else 0 for _ in range(m.below(60)))
        return struct.pack(">hhih", key, version, 7, -1) + body
    data = bytearray(seeds[m.below(len(seeds))])
    if m.chance(0.9):
        m.changes(data, seeds, 8 if m.chance(0.9) else 0)
    return bytes(data)


class _Failures(logging.Handler):
    """What the broker logs of errors that it did not expect."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.found.append(logging.Formatter().format(record))
        elif record.name.endswith("_loop") and "closed: %s: %s" in str(record.msg):
            kind = getattr(errors, str(record.args[1]), None) if isinstance(record.args, tuple) else None
            if kind is None or not issubclass(kind, ProtocolError):
                self.found.append(record.getMessage())


class _Served:
    """One broker of this process, with a topic that holds a record."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="fuzz-broker-")
        atexit.register(self._end)
        self.failures = _Failures()
        _logger.addHandler(self.failures)
        _logger.setLevel(logging.INFO)
        _logger.propagate = False
        self.store: Store = logstore.open(self._directory, {"auto.create.topics.enable": "false"})
        self.store.create_topic("fuzzed").append(b"kept")
        self.broker: Broker = serve(self.store, "127.0.0.1:0", connections_max_idle_ms=-1)
        self.connection = self.connected()

    def _end(self) -> None:
        self.connection.close()
        self.broker.close()
        self.store.close()
        _logger.removeHandler(self.failures)
        shutil.rmtree(self._directory, ignore_errors=True)

    def connected(self) -> socket.socket:
        return socket.create_connection(self.broker.address, _SILENT_S)

    def ask(self, frame: bytes) -> bool:
        """Send a frame, and a good request behind it; return whether the broker has kept the connection."""
        self.connection.settimeout(_PARKED_S if frame[:2] == struct.pack(">h", _FETCH) else _SILENT_S)
        kept = parked = False
        try:
            self.connection.sendall(struct.pack(">i", len(frame)) + frame + _PROBE)
            while (answer := self._frame()) and not kept:
                kept = struct.unpack(">i", answer[:4])[0] == _BEHIND
                if kept:
                    break
        except TimeoutError:
            if frame[:2] != struct.pack(">h", _FETCH):
                raise BrokerStuckError("neither an answer nor an end") from None
            parked = True
        except ConnectionError:
            pass
        if not kept:
            self.connection.close()
            self.connection = self.connected()
        return kept or parked

    def check(self) -> None:
        """Raise if the broker has failed, or stored something."""
        if self.failures.found:
            raise BrokerStuckError("\n".join(self.failures.found[:3]))
        names = self.store.topics()
        for name in names:
            topic = self.store[name]
            for number in range(min(len(topic.partitions), 3)):
                if topic.log(number).log_end_offset != (name == "fuzzed"):
                    raise BrokerStuckError(f"{name}-{number} has stored what was sent")
        for name in names if len(names) > _MOST_TOPICS else ():
            if name != "fuzzed":
                self.store.delete_topic(name)

    def _frame(self) -> bytes:
        head = self._exactly(4)
        return self._exactly(struct.unpack(">i", head)[0]) if head else b""

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            more = self.connection.recv(size - len(found))
            if not more:
                return b""
            found += more
        return found


_served: list[_Served] = []


def send_request(data: bytes) -> None:
    """Send a frame to the broker of this process, which is made for the first."""
    if not _served:
        _served.append(_Served())
    served = _served[0]
    served.failures.found.clear()
    kept = served.ask(data)
    served.check()
    if not kept:
        raise ProtocolError("the broker has closed the connection")
