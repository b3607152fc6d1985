"""Conformance suite of `Registry`."""

from __future__ import annotations

import threading
from abc import abstractmethod

import pytest

from logstore.errors import RegistryUnreachableError, StaleFactError
from logstore.replication.api import Change, Check, Create, Delete, Registry, Write

#: How long a notification may take to come, or a thread to end; only a wrong registry reaches it.
_PATIENCE_S = 30.0


class RegistryConformance:
    """The suite for `logstore.replication.Registry`, the facts that the nodes of a cluster share."""

    @abstractmethod
    def make_registry(self) -> Registry:
        """Return a session of a registry without facts, a new registry for every test."""

    @abstractmethod
    def connect(self, registry: Registry) -> Registry:
        """Return another session of the same registry."""

    def has_ended(self, registry: Registry) -> None:
        """Wait until the registry has noticed that a closed session ended; by default it has at once."""

    # -- facts and versions

    def test_a_fact_is_read_as_it_was_written_and_its_version_counts_the_writes(self) -> None:
        registry = self.make_registry()
        assert registry.read("/a") is None
        [made] = registry.commit([Create("/a", b"\x00one")])
        assert made is not None
        assert made[:3] == ("/a", b"\x00one", 0)
        [written] = registry.commit([Write("/a", b"", 0)])
        assert written is not None
        assert written == registry.read("/a")
        assert written == ("/a", b"", 1, made.created)
        assert registry.commit([Check("/a", 1)]) == [written]
        assert registry.commit([Delete("/a", 1)]) == [None]
        assert registry.read("/a") is None

    def test_a_fact_that_is_made_again_is_another_one(self) -> None:
        registry = self.make_registry()
        [first] = registry.commit([Create("/a", b"1")])
        [second] = registry.commit([Create("/b", b"1")])
        registry.commit([Delete("/a", 0)])
        [again] = registry.commit([Create("/a", b"1")])
        assert first is not None
        assert second is not None
        assert again is not None
        assert first.created < second.created < again.created
        assert again.version == 0

    @pytest.mark.parametrize(
        "change",
        [
            Create("/there", b"2"),
            Write("/there", b"2", 0),
            Write("/there", b"2", 2),
            Delete("/there", 0),
            Check("/there", 2),
            Write("/missing", b"2", 0),
            Delete("/missing", 0),
            Check("/missing", 0),
        ],
    )
    def test_a_condition_that_does_not_hold_stops_the_whole_commit_and_is_named(self, change: Change) -> None:
        registry = self.make_registry()
        registry.commit([Create("/there", b"0"), Write("/there", b"1", 0), Create("/other", b"0")])
        before = registry.read("/there"), registry.read("/other")
        tried: list[list[Change]] = [
            [Write("/other", b"new", 0), Create("/new/below", b""), change],
            [change, Write("/other", b"new", 0), Create("/new/below", b"")],
            [Delete("/other", 0), change],
        ]
        for changes in tried:
            with pytest.raises(StaleFactError) as caught:
                registry.commit(changes)
            assert caught.value.fact == change.path
            assert (registry.read("/there"), registry.read("/other")) == before
            assert registry.read("/new/below") is None
            assert registry.children("/") == {"there", "other"}
        # Nothing of it has counted either.
        assert registry.commit([Write("/other", b"new", 0)])[0] == registry.read("/other")

    def test_each_change_sees_those_before_it(self) -> None:
        registry = self.make_registry()
        results = registry.commit(
            [
                Create("/a", b"0"),
                Write("/a", b"1", 0),
                Check("/a", 1),
                Create("/b", b""),
                Delete("/b", 0),
                Create("/b", b"again"),
            ]
        )
        assert [None if fact is None else (fact.value, fact.version) for fact in results] == [
            (b"0", 0),
            (b"1", 1),
            (b"1", 1),
            (b"", 0),
            None,
            (b"again", 0),
        ]

    def test_a_commit_of_nothing_changes_nothing(self) -> None:
        registry = self.make_registry()
        assert registry.commit([]) == []
        assert registry.children("/") == frozenset()

    # -- the tree

    def test_children_are_the_names_right_below(self) -> None:
        registry = self.make_registry()
        registry.commit([Create("/a/b/c", b""), Create("/a/d", b""), Create("/e", b"")])
        assert registry.children("/") == {"a", "e"}
        assert registry.children("/a") == {"b", "d"}
        assert registry.children("/a/b") == {"c"}
        assert registry.children("/a/b/c") == registry.children("/none") == frozenset()
        assert registry.read("/e") is not None
        registry.commit([Delete("/a/b/c", 0)])
        assert "c" not in registry.children("/a/b")

    def test_a_fact_with_children_is_not_deleted(self) -> None:
        registry = self.make_registry()
        registry.commit([Create("/a", b""), Create("/a/b", b"")])
        with pytest.raises(StaleFactError):
            registry.commit([Delete("/a", 0)])
        assert registry.commit([Delete("/a/b", 0), Delete("/a", 0)]) == [None, None]
        assert registry.read("/a") is None

    def test_sequential_facts_are_numbered_upward_and_a_number_comes_once(self) -> None:
        registry = self.make_registry()
        paths = []
        for number in range(12):
            [fact] = registry.commit([Create("/queue/change_", b"%d" % number, sequential=True)])
            assert fact is not None
            paths.append(fact.path)
            registry.commit([Delete(fact.path, 0)])
        assert paths == sorted(set(paths))
        assert all(path.startswith("/queue/change_") and path[-10:].isdigit() for path in paths)

    @pytest.mark.parametrize("path", ["", "a", "a/b", "//", "/a/", "/a//b"])
    def test_a_malformed_path_is_refused_everywhere(self, path: str) -> None:
        registry = self.make_registry()
        for call in (
            lambda: registry.read(path),
            lambda: registry.children(path),
            lambda: registry.commit([Create("/good", b""), Create(path, b"")]),
            lambda: registry.watch(path, lambda: None),
        ):
            with pytest.raises(ValueError, match="path"):
                call()
        assert registry.read("/good") is None

    # -- sessions

    def test_another_session_sees_what_was_committed(self) -> None:
        first = self.make_registry()
        second = self.connect(first)
        first.commit([Create("/a", b"1")])
        assert second.commit([Write("/a", b"2", 0)])[0] == first.read("/a") == second.read("/a")

    def test_the_end_of_a_session_deletes_its_ephemeral_facts_alone(self) -> None:
        first = self.make_registry()
        second = self.connect(first)
        second.commit(
            [
                Create("/ids/2", b"", ephemeral=True),
                Create("/ids/kept", b""),
                Create("/turn/n", b"", ephemeral=True, sequential=True),
            ]
        )
        first.commit([Create("/ids/1", b"", ephemeral=True)])
        assert first.children("/ids") == {"1", "2", "kept"}
        assert second.is_alive
        second.close()
        assert not second.is_alive
        self.has_ended(first)
        assert first.children("/ids") == {"1", "kept"}
        assert first.children("/turn") == frozenset()
        assert first.is_alive
        second.close()

    def test_an_ephemeral_fact_has_no_children(self) -> None:
        registry = self.make_registry()
        registry.commit([Create("/a", b"", ephemeral=True)])
        with pytest.raises(StaleFactError):
            registry.commit([Create("/a/b", b"")])
        assert registry.children("/a") == frozenset()

    def test_a_session_that_has_ended_answers_nothing_more(self) -> None:
        registry = self.make_registry()
        other = self.connect(registry)
        other.close()
        for call in (
            lambda: other.read("/a"),
            lambda: other.children("/"),
            lambda: other.commit([Create("/a", b"")]),
            lambda: other.watch("/a", lambda: None),
        ):
            with pytest.raises(RegistryUnreachableError):
                call()
        assert registry.read("/a") is None

    def test_of_many_that_write_a_version_one_does(self) -> None:
        """Increments by four sessions, as an election or an ISR change would write."""
        registry = self.make_registry()
        registry.commit([Create("/count", b"0")])
        each, sessions = 25, [self.connect(registry) for _ in range(4)]
        lost = [0] * len(sessions)

        def work(number: int) -> None:
            session, done = sessions[number], 0
            while done < each:
                found = session.read("/count")
                assert found is not None
                try:
                    session.commit([Write("/count", b"%d" % (int(found.value) + 1), found.version)])
                except StaleFactError:
                    lost[number] += 1
                else:
                    done += 1

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(sessions))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10 * _PATIENCE_S)
            assert not thread.is_alive()
        found = registry.read("/count")
        assert found is not None
        assert (int(found.value), found.version) == (each * len(sessions), each * len(sessions))

    # -- watches

    def test_a_watch_is_notified_of_its_fact_and_of_its_childrens_names(self) -> None:
        registry = self.make_registry()
        writer = self.connect(registry)
        steps: list[tuple[str, Change]] = [
            ("/a", Create("/a", b"")),
            ("/a", Write("/a", b"1", 0)),
            ("/a", Create("/a/b", b"")),
            ("/", Create("/c", b"")),
            ("/a", Delete("/a/b", 0)),
            ("/a", Delete("/a", 1)),
        ]
        for path, change in steps:
            told = threading.Event()
            watch = registry.watch(path, told.set)
            writer.commit([change])
            assert told.wait(_PATIENCE_S), f"a watch of {path} was not notified after {change}"
            watch.close()

    def test_a_watch_is_notified_when_a_session_ends_whose_fact_it_is(self) -> None:
        registry = self.make_registry()
        other = self.connect(registry)
        other.commit([Create("/ids/2", b"", ephemeral=True)])
        told = threading.Event()
        registry.watch("/ids", told.set)
        other.close()
        assert told.wait(_PATIENCE_S)

    def test_a_watch_is_notified_when_its_own_session_ends(self) -> None:
        registry = self.make_registry()
        told = threading.Event()
        registry.watch("/a", told.set)
        registry.close()
        assert told.wait(_PATIENCE_S)

    def test_a_notification_comes_without_a_lock_that_a_commit_needs(self) -> None:
        """Two watchers of one fact, of which one commits while the other is notified."""
        registry = self.make_registry()
        other = self.connect(registry)
        entered, go_on = threading.Event(), threading.Event()

        def notify() -> None:
            entered.set()
            go_on.wait(_PATIENCE_S)

        registry.watch("/a", notify)
        thread = threading.Thread(target=registry.commit, args=([Create("/a", b"")],), daemon=True)
        thread.start()
        assert entered.wait(_PATIENCE_S)
        other.commit([Create("/b", b"")])
        go_on.set()
        thread.join(_PATIENCE_S)
        assert not thread.is_alive()

    def test_a_closed_watch_is_notified_no_more(self) -> None:
        registry = self.make_registry()
        calls: list[int] = []
        watch = registry.watch("/a", lambda: calls.append(1))
        watch.close()
        watch.close()
        registry.commit([Create("/a", b"")])
        registry.close()
        assert calls == []
