"""Brokers to ask for metadata as they come and go, and the names of bootstrap servers that move."""

from __future__ import annotations

import random

import pytest

from logstore.config.remote import Address
from logstore.errors import BrokerUnreachableError
from logstore.remote.metadata.bootstrap import BootstrapServers
from logstore.remote.metadata.known import KnownBroker
from logstore.testing.clock import ManualClock

KNOWN = {1: KnownBroker("broker-1", 9092), 2: KnownBroker("broker-2", 9092)}


class Names:
    """A resolver whose answers a test changes."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {"a": ["10.0.0.1", "10.0.0.2"], "b": ["10.0.0.2"]}
        self.clock = ManualClock()
        self.servers = BootstrapServers(
            [("a", 9092), ("b", 9092)], self.clock, self.resolve, rebootstrap_ms=1_000, rng=random.Random(1)
        )

    def resolve(self, address: Address) -> list[Address]:
        if address[0] not in self.found:
            raise OSError(0, "unknown name")
        return [(each, address[1]) for each in self.found[address[0]]]


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.mark.row("Z6", part="the client")
def test_the_first_metadata_comes_from_every_address_of_every_name(names: Names) -> None:
    assert names.servers.candidates({}) == [(-1, ("10.0.0.1", 9092)), (-1, ("10.0.0.2", 9092))]


def test_known_brokers_are_asked_while_one_of_them_answers(names: Names) -> None:
    assert sorted(names.servers.candidates(KNOWN)) == [(1, ("broker-1", 9092)), (2, ("broker-2", 9092))]
    names.servers.failed(1)
    assert names.servers.candidates(KNOWN) == [(2, ("broker-2", 9092))]
    names.servers.answered()
    assert len(names.servers.candidates(KNOWN)) == 2


def test_a_cluster_that_has_moved_is_found_by_its_names(names: Names) -> None:
    names.servers.failed(1)
    names.servers.failed(2)
    names.found = {"a": ["10.9.9.9"]}
    assert names.servers.candidates(KNOWN) == [(-1, ("10.9.9.9", 9092))]


def test_a_long_time_without_metadata_begins_again(names: Names) -> None:
    names.servers.failed(1)
    names.clock.advance(999)
    names.servers.failed(1)
    assert not names.servers.must_begin_again(KNOWN)
    names.clock.advance(1)
    assert names.servers.must_begin_again(KNOWN)
    names.servers.answered()
    assert not names.servers.must_begin_again(KNOWN)


def test_a_broker_may_ask_for_a_new_beginning(names: Names) -> None:
    names.servers.begin_again()
    assert names.servers.must_begin_again(KNOWN)
    names.servers.answered()
    assert not names.servers.must_begin_again(KNOWN)


def test_names_that_cannot_be_resolved_are_named(names: Names) -> None:
    names.found = {}
    with pytest.raises(BrokerUnreachableError, match=r"a:9092 \(unknown name\), b:9092"):
        names.servers.candidates({})
