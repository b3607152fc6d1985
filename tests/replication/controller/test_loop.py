"""The thread of a controller, with a registry and a way to the nodes that raise anything."""

from __future__ import annotations

import asyncio

import pytest

from logstore.replication import Create, LocalRegistry, facts
from logstore.replication.controller import ControllerLoop
from logstore.replication.controller.commands import Command
from tests.kit.waiting import wait_for

ERRORS = [
    RuntimeError("an embedder's"),
    asyncio.CancelledError("a cancelled future"),
    SystemExit("an embedder's exit"),
    KeyboardInterrupt("in a callback"),
    GeneratorExit("a closed generator"),
]
TOPIC = b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[1]}}'


class Failing:
    """Sessions of a registry whose commits raise what a test says."""

    def __init__(self, registry: LocalRegistry) -> None:
        self.registry = registry
        self.error: BaseException | None = None
        self.failures = 0

    def connect(self) -> LocalRegistry:
        session = self.registry.connect()
        commit, read = session.commit, session.read

        def or_fail(call):
            def called(*given):
                if self.error is not None:
                    self.failures += 1
                    raise self.error
                return call(*given)

            return called

        session.commit, session.read = or_fail(commit), or_fail(read)
        return session


@pytest.fixture
def registry():
    made = LocalRegistry()
    made.commit(
        [
            Create(facts.life_path(1), b"directory"),
            Create(facts.id_path(1), facts.encode_node("directory", None)),
        ]
    )
    return made


def leader(registry: LocalRegistry) -> int | None:
    fact = registry.read("/brokers/topics/t/partitions/0/state")
    return None if fact is None else facts.decode_state(fact, (1,)).leader


@pytest.mark.parametrize("error", ERRORS)
def test_errors_of_a_registry_end_no_controller(registry, error, caplog):
    failing = Failing(registry)
    with ControllerLoop(1, failing.connect, lambda command: None) as loop:
        wait_for(lambda: loop.epoch is not None)
        failing.error = error
        registry.commit([Create("/brokers/topics/t", TOPIC)])
        wait_for(lambda: failing.failures >= 2)
        assert leader(registry) is None
        failing.error = None
        wait_for(lambda: leader(registry) == 1)
    assert f"{type(error).__name__}: {error}" in caplog.text


@pytest.mark.parametrize("error", ERRORS)
def test_a_command_whose_way_raises_anything_is_sent_again(registry, error):
    sent: list[Command] = []

    def send(command: Command) -> None:
        sent.append(command)
        if len(sent) < 3:
            raise error

    with ControllerLoop(1, registry.connect, send) as loop:
        wait_for(lambda: loop.epoch is not None)
        registry.commit([Create("/brokers/topics/t", TOPIC)])
        wait_for(lambda: len(sent) >= 3)
        assert {each.states[0].place for each in sent} == {("t", 0)}
        loop.balance()
        wait_for(lambda: not loop._office._calls)
        assert loop.epoch == 1
