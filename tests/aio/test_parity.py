"""The two halves have the same names: what the store gets, its asynchronous twin gets too."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import logstore
from logstore import aio
from logstore.client.consumer import Consumer
from logstore.client.producer import Producer
from logstore.client.scan.topic_scan import TopicScan
from logstore.renamed import Former
from logstore.store.store import Store
from logstore.store.topic import Topic

TWINS = [
    (Store, aio.Store),
    (Topic, aio.Topic),
    (Producer, aio.Producer),
    (Consumer, aio.Consumer),
    (TopicScan, aio.Scan),
]

#: What has no twin, and why.
WITHOUT = {
    # An asynchronous program has the methods beside it.
    Store: {"offsets"},
    # Logs, whose calls block.
    Topic: {"partitions", "log", "store"},
    # What an asynchronous producer is made of.
    Producer: {"append", "pause", "resume", "use", "forget", "known", "offer"},
    Consumer: set(),
    TopicScan: set(),
}

#: What instances of the store have without their classes saying so, and `sync` itself.
ATTRIBUTES = {"sync", "name", "id", "path", "config", "read_only", "columns", "partitioner"}

#: What an event loop can call without waiting, because nothing in it does.
AT_ONCE = {"wakeup"}

#: What makes something to be awaited, entered or iterated, and does nothing before.
MAKES = {"producer", "consumer", "topic", "scan", "chunks", "values", "batches"}


def public(kind) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and type(getattr(kind, name)) is not Former}


@pytest.mark.parametrize(("sync", "twin"), TWINS, ids=lambda kind: kind.__module__)
def test_every_public_name_has_its_twin(sync, twin):
    missing = public(sync) - public(twin) - WITHOUT[sync]
    assert not missing, f"{twin.__name__} of logstore.aio lacks {sorted(missing)}"
    unknown = public(twin) - public(sync) - {"sync", "name", "id", "path", "config", "columns", "topic"}
    assert not unknown, f"the store has no {sorted(unknown)}"
    gone = WITHOUT[sync] & public(twin)
    assert not gone, f"{sorted(gone)} have twins: take them off the list"


@pytest.mark.parametrize(
    ("sync", "twin", "name"),
    [
        (sync, twin, name)
        for sync, twin in TWINS
        for name in sorted(public(sync) & public(twin))
        if callable(getattr(sync, name))
    ],
    ids=lambda part: part if isinstance(part, str) else part.__module__,
)
def test_a_twin_takes_the_same_and_is_awaited(sync, twin, name):
    theirs, ours = getattr(sync, name), getattr(twin, name)
    assert inspect.getdoc(ours), f"{name} says nothing"
    awaited = inspect.iscoroutinefunction(ours) or inspect.isasyncgenfunction(ours)
    assert awaited or name in AT_ONCE | MAKES, f"{name} might block"
    assert parameters(ours) == parameters(theirs)
    # The own head is as wide as the one it shows.
    own = inspect.signature(ours, follow_wrapped=False).parameters.values()
    if not any(each.kind is each.VAR_POSITIONAL for each in own):
        assert [(each.name, each.kind, each.default) for each in own] == [
            (each.name, each.kind, each.default) for each in inspect.signature(theirs).parameters.values()
        ]


def parameters(function) -> list[tuple]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def test_what_only_makes_something_has_not_begun(tmp_path):
    store = aio.open(tmp_path / "data")
    assert isinstance(store, aio.Pending)
    assert not (tmp_path / "data").exists()


def test_opening_takes_the_same():
    assert parameters(aio.open) == parameters(logstore.open)


def test_nothing_of_asyncio_is_imported_by_logstore_itself():
    program = "import sys, logstore; logstore.open; assert 'asyncio' not in sys.modules, 'asyncio'"
    subprocess.run([sys.executable, "-c", program], check=True)
