"""One connection to the broker of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from logstore.broker import Broker
from tests.broker.wire import Wire


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as wire:
        yield wire
