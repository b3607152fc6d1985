"""The simulated world, network and sessions: one seed gives the same events, and each fault is what it says."""

from __future__ import annotations

from logstore.errors import RegistryUnreachableError
from logstore.replication.api import Create
from logstore.replication.local.local_registry import LocalRegistry
from logstore.testing.cluster.network import SimNetwork, Weather
from logstore.testing.cluster.registry import RegistryLink, SimSession
from logstore.testing.cluster.world import SimClock, World


def test_events_run_in_the_order_of_their_times_and_of_their_making():
    world, seen = World(1), []
    world.after(5, lambda: seen.append("b"))
    world.after(2, lambda: (seen.append("a"), world.after(3, lambda: seen.append("c"))))
    world.run_until(5)
    assert (seen, world.now_ms) == (["a"], 5)
    world.run_until(6)
    assert (seen, world.now_ms) == (["a", "b", "c"], 6)
    assert SimClock(world).monotonic_s() == 0.006


def test_the_trace_tells_what_happened_and_when():
    traces = set()
    for delay, what in ((1, "x"), (1, "y"), (2, "x")):
        world = World(1)
        world.after(delay, lambda world=world, what=what: world.note(what))
        world.run_until(9)
        traces.add(world.trace)
    assert len(traces) == 3


def call(network: SimNetwork, world: World, source: int, target: int) -> tuple[list[str], list[str]]:
    delivered: list[str] = []
    answered: list[str] = []

    def deliver(request, answer):
        delivered.append(request)
        answer(request.upper())

    network.call(source, target, "ping", deliver, answered.append)
    world.run_until(world.now_ms + 2_000)
    return delivered, answered


def test_a_call_arrives_and_is_answered():
    world = World(1)
    assert call(SimNetwork(world), world, 1, 2) == (["ping"], ["PING"])


def test_a_link_is_cut_in_one_direction():
    world = World(1)
    network = SimNetwork(world)
    network.cut(1, 2)
    assert call(network, world, 1, 2) == ([], [])
    assert call(network, world, 2, 1) == (["ping"], [])
    network.heal()
    assert call(network, world, 2, 1) == (["ping"], ["PING"])


def test_an_isolated_node_reaches_only_what_is_not_named():
    world = World(1)
    network = SimNetwork(world)
    network.isolate(1, [1, 2, 3])
    assert call(network, world, 1, 3) == call(network, world, 3, 1) == ([], [])
    assert call(network, world, 2, 3) == (["ping"], ["PING"])


def test_messages_are_lost_and_repeated():
    world = World(1)
    network = SimNetwork(world)
    network.weather = Weather(loss=1.0)
    assert call(network, world, 1, 2) == ([], [])
    network.weather = Weather(repeat=1.0)
    delivered, answered = call(network, world, 1, 2)
    assert (len(delivered), len(answered)) == (2, 4)


def test_a_session_that_is_not_renewed_expires():
    world, registry = World(1), LocalRegistry()
    session = SimSession(world, registry.connect(), 800)
    session.registry.commit([Create("/here", b"", ephemeral=True)])
    world.run_until(700)
    session.renew()
    world.run_until(1_400)
    assert session.is_alive
    world.run_until(1_800)
    assert not session.is_alive
    assert registry.read("/here") is None


def test_an_answer_of_the_registry_is_lost_after_the_work_was_done():
    world, registry = World(1), LocalRegistry()
    link, heard = RegistryLink(world), []
    link.lost_answers = 1.0
    link.call(lambda: registry.commit([Create("/a", b"1")]), lambda *found: heard.append(found))
    world.run_until(100)
    assert registry.read("/a").value == b"1"
    assert heard[0][0] is None
    assert isinstance(heard[0][1], RegistryUnreachableError)


def test_a_registry_that_is_down_does_no_work():
    world, registry = World(1), LocalRegistry()
    link, heard = RegistryLink(world), []
    link.is_down = True
    link.call(lambda: registry.commit([Create("/a", b"1")]), lambda *found: heard.append(found))
    world.run_until(100)
    assert registry.read("/a") is None
    assert isinstance(heard[0][1], RegistryUnreachableError)
