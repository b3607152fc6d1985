"""The registry that is kept in a store: its facts survive the process, whatever the disk does."""

from __future__ import annotations

import errno
import json

import pytest

import logstore
from logstore.batch._crc32c import crc32c
from logstore.errors import (
    NotALogError,
    NotLeaderError,
    PeerUnreachableError,
    ReadOnlyError,
    RegistryUnreachableError,
    StaleFactError,
)
from logstore.io._files import LIBC, Files
from logstore.log.directory.files import Directory
from logstore.replication import Check, Create, Delete, LocalRegistry, Node, Registry, Transport, Write
from logstore.replication.api import Fact
from logstore.replication.local.facts_file import KeptFacts
from logstore.store.catalog.layout import FACTS_FILE
from logstore.testing import FaultyFiles, SimDisk
from logstore.testing.conformance import RegistryConformance
from logstore.testing.simdisk import POLICIES


class Alone(Transport):
    """The transport of a node that has no others."""

    def call(self, to, request, *, timeout_s):
        raise PeerUnreachableError(f"node {to} is not there")


def opened(path, files: Files = LIBC) -> logstore.Store:
    return logstore.open(path, {"logstore.housekeeping": "manual"}, files=files)


class TestKeptRegistry(RegistryConformance):
    @pytest.fixture(autouse=True)
    def _stores(self, tmp_path):
        self.path, self.stores = tmp_path, list[logstore.Store]()
        yield
        for store in self.stores:
            store.close()

    def make_registry(self) -> Registry:
        self.stores.append(opened(self.path / str(len(self.stores))))
        return LocalRegistry.kept_in(self.stores[-1])

    def connect(self, registry: Registry) -> Registry:
        return LocalRegistry.kept_in(self.stores[-1])


def test_facts_versions_and_numbers_go_on_after_a_restart(tmp_path):
    with opened(tmp_path) as store:
        registry = LocalRegistry.kept_in(store)
        registry.commit([Create("/a", bytes(range(256))), Create("/q/n", b"", sequential=True), Create("/b", b"")])
        registry.commit([Write("/a", b"\xff\n", 0), Create("/live", b"", ephemeral=True)])
        [last] = registry.commit([Create("/b/deep", b"")])
        registry.commit([Delete("/b/deep", 0)])
        registry.close()
    with opened(tmp_path) as store:
        registry = LocalRegistry.kept_in(store)
        assert registry.read("/a") == Fact("/a", b"\xff\n", 1, 1)
        assert (registry.children("/"), registry.children("/b")) == ({"a", "b", "q"}, frozenset())
        with pytest.raises(StaleFactError):
            registry.commit([Check("/a", 0)])
        assert last is not None
        made = registry.commit([Write("/a", b"", 1), Create("/q/n", b"", sequential=True), Create("/b/deep", b"")])
        assert made[0] == Fact("/a", b"", 2, 1)
        assert made[1:] == [
            Fact("/q/n0000000001", b"", 0, last.created + 1),
            Fact("/b/deep", b"", 0, last.created + 2),
        ]


def test_a_node_alone_goes_on_after_a_restart(tmp_path):
    for run in range(3):
        with opened(tmp_path) as store:
            registry = LocalRegistry.kept_in(store)
            with Node(store, 1, registry.connect, Alone()) as node:
                topic = node.wait_for_topic("t") if run else node.create_topic("t")
                assert topic.append(b"%d" % run, acks="all", timeout_s=10).offset == run
                [replica] = node.metrics()
                assert replica.isr == (1,)
            registry.close()
    with opened(tmp_path) as store, pytest.raises(NotLeaderError):
        store["t"].append(b"without a node")


def small() -> bytes:
    facts = {"/a": Fact("/a", b"\x00\xff\n", 3, 1), "/b/c": Fact("/b/c", b"{}", 0, 2)}
    return KeptFacts(facts, {"/q": 4}, 9).to_bytes()


def refused(root: Directory, data: bytes) -> str:
    root.replace(FACTS_FILE, data, durable=False)
    with pytest.raises(NotALogError, match=r"^logstore\.facts cannot be used .*restore it from a copy") as caught:
        KeptFacts.load(root)
    assert root.read(FACTS_FILE) == data
    return str(caught.value)


def test_a_file_that_is_cut_or_changed_at_any_place_is_refused(tmp_path):
    root, whole = Directory(tmp_path), small()
    for size in range(len(whole)):
        refused(root, whole[:size])
    for position in range(len(whole)):
        for bit in range(8):
            refused(root, whole[:position] + bytes([whole[position] ^ 1 << bit]) + whole[position + 1 :])
    refused(root, whole + b"\n")
    refused(root, whole + whole)
    root.replace(FACTS_FILE, whole, durable=False)
    assert KeptFacts.load(root).to_bytes() == whole


def summed(body: bytes) -> bytes:
    return body + b"crc32c %08x\n" % crc32c(body)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"logstore facts 2\n{}\n", "of version 2"),
        (b"logstore facts 1\n[]\n", "list indices"),
        (b"logstore facts 1\n{\n", "Expecting"),
        (b"logstore facts 1\n" + b"[" * 100_000 + b"\n", "recursion"),
        (b'logstore facts 1\n{"created": 1, "numbers": {}, "facts": {"a": [0, 1, ""]}}\n', "begins with a slash"),
        (b'logstore facts 1\n{"created": 1, "numbers": {}, "facts": {"/a": [0, 1, "\\u0100"]}}\n', "latin-1"),
        (b'logstore facts 1\n{"created": 1, "numbers": {}, "facts": {"/a": 1}}\n', "unpack"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_the_registry_is_not_made(tmp_path, body, what):
    with opened(tmp_path) as store:
        assert what in refused(Directory(tmp_path), summed(body))
        for _ in range(2):
            with pytest.raises(NotALogError):
                LocalRegistry.kept_in(store)


def test_an_early_file_can_be_read():
    """The bytes of the first release: they are read for ever."""
    facts = json.dumps({"created": 7, "numbers": {"/q": 2}, "facts": {"/a": [1, 5, "x\u00ff"]}}).encode()
    found = KeptFacts.of_bytes(summed(b"logstore facts 1\n" + facts + b"\n"))
    assert found == ({"/a": Fact("/a", b"x\xff", 1, 5)}, {"/q": 2}, 7)


def values(registry: Registry) -> tuple[bytes, ...]:
    return tuple(b"-" if fact is None else fact.value for fact in map(registry.read, ("/a", "/b")))


#: Commits of two facts each, and what is there after each.
COMMITS = [
    [Create("/a", b"0"), Create("/b", b"0")],
    [Write("/a", b"1", 0), Write("/b", b"1", 0)],
    [Write("/a", b"2", 1), Delete("/b", 1)],
]
STATES = [(b"-", b"-"), (b"0", b"0"), (b"1", b"1"), (b"2", b"-")]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_power_cut_leaves_the_facts_before_a_commit_or_those_after_it(policy):
    disk = SimDisk(3)
    store = opened("/data", disk)
    registry = LocalRegistry.kept_in(store)
    disk.keep_moments()
    answered = [0] * disk.moment_count  # moment -> commits that were answered before it
    for number, changes in enumerate(COMMITS, 1):
        registry.commit(changes)
        answered += [number - 1] * (disk.moment_count - len(answered))
        answered[-1] = number
    seen = set()
    for moment, before in zip(disk.moments(), answered, strict=True):
        with opened("/data", moment.crash(policy)) as after:
            found = STATES.index(values(LocalRegistry.kept_in(after)))
            assert before <= found <= before + 1
            seen.add(found)
    store.close()
    assert seen >= {1, 2, 3}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("op", ["open", "pwrite", "fdatasync", "rename", "fsync_dir"])
@pytest.mark.parametrize("times", [1, -1])
def test_a_commit_that_the_disk_refuses_is_unknown_and_later_reads_have_what_the_disk_has(
    tmp_path, op, error, times
):
    files = FaultyFiles()
    with opened(tmp_path, files) as store:
        registry, other = LocalRegistry.kept_in(store), LocalRegistry.kept_in(store)
        registry.commit(COMMITS[0])
        path = str(tmp_path) if op == "fsync_dir" else FACTS_FILE
        files.fail(op, errno=error, times=times, path_contains=path)
        with pytest.raises(RegistryUnreachableError, match=r"^logstore\.facts: "):
            registry.commit(COMMITS[1])
        assert files.fired()
        if times < 0:
            # The disk may have either: no session reads one that it may lack.
            for session in (registry, other):
                with pytest.raises(RegistryUnreachableError):
                    session.read("/a")
                with pytest.raises(RegistryUnreachableError):
                    session.children("/")
                with pytest.raises(RegistryUnreachableError):
                    session.commit([Check("/a", 0)])
        files.heal()
        assert values(other) == STATES[1]
        assert KeptFacts.load(Directory(tmp_path)).facts["/a"].value == b"0"
        registry.commit(COMMITS[1])
    with opened(tmp_path) as store:
        assert values(LocalRegistry.kept_in(store)) == STATES[2]


def test_a_closed_store_and_a_reader_keep_nothing(tmp_path):
    with opened(tmp_path) as store:
        registry = LocalRegistry.kept_in(store)
        registry.commit(COMMITS[0])
    with pytest.raises(RegistryUnreachableError, match=r"^logstore\.facts: the store is closed"):
        registry.commit(COMMITS[1])
    with opened(tmp_path) as store:
        assert values(LocalRegistry.kept_in(store)) == STATES[1]
    with (
        logstore.open(tmp_path, read_only=True) as reader,
        pytest.raises(ReadOnlyError),
    ):
        LocalRegistry.kept_in(reader)
