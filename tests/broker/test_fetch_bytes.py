"""A fetch that is answered from its bytes gets the bytes that the decoded one gets, and is counted as that one."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from logstore.batch._encode import encode
from logstore.broker import Broker, serve
from logstore.broker.requests import FAMILIES, FETCH, RequestHandler
from logstore.broker.served import Served
from logstore.log import Log
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import ProducerStamp
from logstore.store import Store
from tests.broker.wire import Wire
from tests.log.produced import abort, transactional

SEED = 2027
NAMES = ("plain", "short", "mixed", "missing")
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"


class Decoding(RequestHandler):
    """Answers each fetch by its message object."""

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self.quick = self.quick[:1]


@pytest.fixture
def decoding(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setattr("logstore.broker.broker.RequestHandler", Decoding)
    with serve(store, "127.0.0.1:0") as broker:
        yield broker
