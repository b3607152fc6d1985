"""Replicas: what copies cost, what idle ones cost, and how soon a controller has leaders for a large cluster.

Three nodes in one process, which call each other without a network, and a registry in memory. So the figures have
every thread and message of three machines, on this one's cores.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from interleave import Runner, Target, race
from test_footprint import RESIDENT, run

#: What the scripts share: the nodes of a cluster, in one process.
CLUSTER = """
import time
import logstore
from logstore.errors import DeliveryTimeoutError, PeerUnreachableError
from logstore.replication import LocalRegistry, Node, Transport
class Direct(Transport):
    def call(self, to, request, *, timeout_s):
        if to not in nodes:
            raise PeerUnreachableError(f"node {to} is not there")
        return nodes[to].answer(request)
path, nodes, registry = sys.argv[1], {}, LocalRegistry()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
stores = {number: logstore.open(f"{path}/{number}") for number in (1, 2, 3)}
def start():
    for number, store in stores.items():
        nodes[number] = Node(store, number, registry.connect, Direct())
"""

#: MB/s and CPU seconds for each GB of one case: so many replicas, acks, and topics that one node leads. Beside them
#: those of a plain topic right before and after it. A virtual machine gets memory from its host page by page, at
#: several times the cost of a write, and that counts as CPU of the process that meets it. So a case has a process
#: of its own, which first writes as much as it will take, and gives that back.
COPIES = """
start()
megabytes, count, acks, topics = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
with open(f"{path}/memory", "wb") as file:
    for _ in range(12 * megabytes):
        file.write(bytes(1 << 20))
os.unlink(f"{path}/memory")
value = bytes(range(256)) * 4
def produced(acks, *topics):
    with stores[1].producer(acks=acks, batch_size=16384, linger_ms=5, compression_type="none") as producer:
        began, used = time.perf_counter(), time.process_time()
        for number in range(megabytes * 1024):
            producer.send(topics[number // 16 % len(topics)], value)
        producer.flush()
        while any(len(ends) > 1 for ends in ends_of(topics).values()):
            time.sleep(0.001)
        return [megabytes / (time.perf_counter() - began), (time.process_time() - used) / megabytes * 1024]
def ends_of(topics):
    ends = {topic: set() for topic in topics}
    for node in nodes.values():
        for each in node.metrics():
            if each.topic in ends:
                ends[each.topic].add(each.log_end_offset)
    return ends
stores[1].create_topic("plain")
copied = [f"t{number}" for number in range(topics)]
for topic in copied:
    settings = {"min.insync.replicas": min(count, 2)}
    nodes[1].create_topic(topic, replicas=range(1, count + 1), settings=settings)
produced("1", "plain")
produced(acks, *copied)
before = produced("1", "plain")
case = produced(acks, *copied)
after = produced("1", "plain")
print(json.dumps([*case, *((one + two) / 2 for one, two in zip(before, after))]), flush=True)
os._exit(0)
"""

#: Percent of a core, and MB, for each node, of partitions with three replicas that nothing is written to.
IDLE = """
count = int(sys.argv[2])
for store in stores.values():
    store.create_topic("t", count, {"logstore.replicated": "true"})
    for number in range(count):
        store["t"].log(number).log_end_offset
before = resident_mb()
start()
try:
    nodes[1].create_topic("t", count)
except DeliveryTimeoutError:
    pass  # it is made, and has no leaders after 30 s
for number in nodes:
    nodes[number].wait_for_topic("t", timeout_s=600)
time.sleep(10)
used = time.process_time()
time.sleep(30)
used = (time.process_time() - used) / 30
print(json.dumps([100 * used / 3, (resident_mb() - before) / 3]), flush=True)
os._exit(0)
"""

#: Seconds, and CPU seconds, of the election after a broker is lost, and of another controller's first turn.
CONTROLLER = """
import time
from concurrent.futures import ThreadPoolExecutor
from logstore.clock import SystemClock
from logstore.records import TopicPartition
from logstore.replication import Create, LocalRegistry, facts
from logstore.replication.controller import spread
from logstore.replication.controller.office import ControllerOffice
brokers, topics, partitions = 1_000, 100, 100
class Distant(LocalRegistry):
    "A session that is a millisecond away."
    def __init__(self):
        super().__init__()
        self._tree = registry._tree
    def read(self, path):
        time.sleep(0.001)
        return super().read(path)
    def children(self, path):
        time.sleep(0.001)
        return super().children(path)
    def commit(self, changes):
        time.sleep(0.001)
        return super().commit(changes)
registry, sessions, told = LocalRegistry(), {}, {}
def send(command):
    time.sleep(0.001)
    told.update({(command.to, held.place): held.state for held in command.states})
for node in range(brokers):
    sessions[node] = registry.connect()
    rack = b'{"rack": "%d"}' % (node % 3)
    sessions[node].commit([Create(facts.life_path(node), b""), Create(facts.id_path(node), rack, ephemeral=True)])
racks = {node: str(node % 3) for node in range(brokers)}
for topic in range(topics):
    assigned = dict(enumerate(spread(partitions, 3, racks, first=topic * partitions)))
    registry.commit([Create(facts.topic_path(f"t{topic}"), facts.encode_assignment("A" * 22, assigned))])
pool = ThreadPoolExecutor(16)
def took(step):
    began, used = time.perf_counter(), time.process_time()
    step()
    return [time.perf_counter() - began, time.process_time() - used]
def lead(node):
    office = ControllerOffice(node, Distant, send, SystemClock(), map_calls=pool.map, balance_s=300)
    office.turn()
    return office
def check(lost):
    for topic in range(topics):
        for number in range(partitions):
            place = TopicPartition(f"t{topic}", number)
            state = facts.decode_state(registry.read(facts.state_path(place)), ())
            assert state.leader not in lost and not {*state.isr} & lost and state.leader >= 0
            assert all(told[node, place] == state for node in state.isr)
first = lead(0)
check(set())
sessions[5].close()
lost = took(first.turn)
check({5})
first.close()
told.clear()
sessions[7].close()
again = took(lambda: lead(1))
check({5, 7})
print(json.dumps([*lost, *again]), flush=True)
os._exit(0)
"""


@pytest.mark.row("N7")
@pytest.mark.parametrize(
    ("count", "acks", "topics"),
    [*((count, acks, 1) for count in (1, 2, 3) for acks in ("0", "1", "all")), (3, "all", 8)],
)
def test_the_cost_of_copies(benchmark: Any, places: Any, count: int, acks: str, topics: int) -> None:
    """A producer of 16 KiB batches to partitions that one node leads, until every replica has all of it."""
    found: list[list[float]] = []

    def check(_place: Path, figures: list[float]) -> None:
        found.append(figures)

    def targets(_medians: dict[str, float]) -> list[Target]:
        rate, cpu, plain_rate, plain_cpu = (statistics.median(column) for column in zip(*found, strict=True))
        ratio = statistics.median(each[1] / each[3] for each in found)
        bar = 3.5 if (count, acks) == (3, "all") else None
        return [
            Target("MB/s", rate, "MB/s", at_most=False, reference=f"{cpu:.1f} CPU s/GB"),
            Target("plain topic", plain_rate, "MB/s", at_most=False, reference=f"{plain_cpu:.1f} CPU s/GB"),
            Target("CPU per GB, over plain", ratio, "x", bar),
        ]

    race(
        benchmark,
        Runner(lambda place: run(RESIDENT + CLUSTER + COPIES, place, 64, count, acks, topics), check, places),
        {},
        workload=f"RF {count}, acks {acks}, {topics} topic{'s' * (topics > 1)}",
        records=64 * 1024,
        size=64 << 20,
        targets=targets,
        rounds=3,
        unit="s in all",
        codec="none",
    )


@pytest.mark.row("S9")
@pytest.mark.parametrize("count", [1_000, 10_000])
def test_idle_replicas(benchmark: Any, places: Any, count: int) -> None:
    """Partitions with a replica on each of three nodes: a third is led by each."""
    found: list[list[float]] = []

    def check(_place: Path, figures: list[float]) -> None:
        found.append(figures)

    def targets(_medians: dict[str, float]) -> list[Target]:
        cpu, memory = (statistics.median(column) for column in zip(*found, strict=True))
        bars = (5, 10) if count == 1_000 else (None, None)
        return [
            Target("idle, each node", cpu, "% of a core", bars[0]),
            Target("memory, each node", memory, "MB", bars[1]),
        ]

    race(
        benchmark,
        Runner(lambda place: run(RESIDENT + CLUSTER + IDLE, place, count), check, places),
        {},
        workload=f"{count:,} idle partitions, three replicas",
        records=count,
        size=0,
        targets=targets,
        rounds=1,
        unit="s in all",
        codec="none",
    )


@pytest.mark.row("N6")
def test_a_controller_of_a_thousand_brokers(benchmark: Any, places: Any) -> None:
    """10,000 partitions with three replicas; each call of the registry and each command takes a millisecond."""
    found: list[list[float]] = []

    def check(_place: Path, figures: list[float]) -> None:
        found.append(figures)

    def targets(_medians: dict[str, float]) -> list[Target]:
        lost, lost_cpu, taken, taken_cpu = (statistics.median(column) for column in zip(*found, strict=True))
        return [
            Target(
                "a broker lost: all led again", lost * 1e3, "ms", 5_000, reference=f"CPU {lost_cpu * 1e3:.0f} ms"
            ),
            Target("another controller", taken * 1e3, "ms", 5_000, reference=f"CPU {taken_cpu * 1e3:.0f} ms"),
        ]

    race(
        benchmark,
        Runner(lambda place: run(RESIDENT + CONTROLLER, place), check, places),
        {},
        workload="a controller of 1,000 brokers, 10,000 partitions",
        records=10_000,
        size=0,
        targets=targets,
        rounds=3,
        unit="s in all",
        codec="none",
    )
