"""A node's registration: which directory is trusted, whatever a process that has died has left behind."""

from __future__ import annotations

import pytest

from logstore.errors import RegistryUnreachableError
from logstore.log.directory.files import Directory
from logstore.replication import LocalRegistry
from logstore.replication.node.registration import NodeRegistration
from logstore.store.catalog.node_file import NODE_FILE, NodeFile


class Unreachable(LocalRegistry):
    """A session whose next commit of several facts takes place or does not, and is not answered."""

    takes_place = False

    def commit(self, changes):
        if len(changes) > 1:
            if self.takes_place:
                super().commit(changes)
            raise RegistryUnreachableError("no answer")
        return super().commit(changes)


def session_of(registry: LocalRegistry, *, takes_place: bool) -> Unreachable:
    session = Unreachable()
    session._tree = registry._tree
    session.takes_place = takes_place
    return session


def begun(root: Directory, registry: LocalRegistry, *, confirms: bool = True) -> NodeRegistration:
    """Return the registration of a process that has begun its life, and then died with its session."""
    made = NodeRegistration(root, 1, "cluster")
    session = registry.connect()
    assert made.register(session)
    if confirms:
        made.confirm()
    session.close()
    return made


@pytest.fixture
def root(tmp_path):
    return Directory(tmp_path)


@pytest.fixture
def registry():
    return LocalRegistry()


def test_the_lives_of_a_directory_rise_and_it_is_trusted(root, registry):
    lives = [begun(root, registry) for _ in range(4)]
    assert [(each.life, each.has_same_disk) for each in lives] == [(life, True) for life in range(4)]
    stored = NodeFile.load(root)
    assert (stored.cluster_id, stored.node, stored.life, stored.is_trusted) == ("cluster", 1, 3, True)


@pytest.mark.parametrize("takes_place", [False, True])
def test_a_process_that_dies_at_its_registration_costs_no_trust(root, registry, takes_place):
    begun(root, registry)
    dying = NodeRegistration(root, 1, "cluster")
    session = session_of(registry, takes_place=takes_place)
    with pytest.raises(RegistryUnreachableError):
        dying.register(session)
    session.close()
    # Its own next attempt, and another process.
    retry = registry.connect()
    assert dying.register(retry)
    assert dying.has_same_disk
    retry.close()
    assert begun(root, registry).has_same_disk


def test_a_wiped_directory_is_not_trusted_before_it_is_confirmed(root, registry):
    begun(root, registry)
    root.remove(NODE_FILE)
    assert not begun(root, registry, confirms=False).has_same_disk
    # It died before its replicas had left their sets: so must the next process.
    assert not begun(root, registry, confirms=False).has_same_disk
    assert not begun(root, registry).has_same_disk
    assert begun(root, registry).has_same_disk


def test_a_directory_of_yesterday_is_not_trusted(root, registry):
    begun(root, registry)
    yesterday = root.read(NODE_FILE)
    begun(root, registry)
    root.replace(NODE_FILE, yesterday, durable=True)
    assert not begun(root, registry).has_same_disk


def test_a_directory_of_the_same_number_but_of_another_one_is_not_trusted(tmp_path, registry):
    mine, other = Directory(tmp_path / "mine"), Directory(tmp_path / "other")
    for each in (mine, other):
        each.create_durably()
    begun(mine, registry)
    # Its claim of the next life was not answered, and the other directory got it.
    dying = NodeRegistration(mine, 1, "cluster")
    session = session_of(registry, takes_place=False)
    with pytest.raises(RegistryUnreachableError):
        dying.register(session)
    session.close()
    begun(other, registry)
    assert not begun(mine, registry).has_same_disk


def test_a_node_that_the_cluster_has_never_seen_has_lost_nothing(root, registry):
    assert begun(root, registry).has_same_disk


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_copy_is_not_trusted_also_by_a_registry_that_was_made_again(root, registry, is_lost):
    begun(root, registry)
    NodeFile.load(root).copied().save(root)
    used = LocalRegistry() if is_lost else registry
    assert not begun(root, used, confirms=False).has_same_disk
    assert not begun(root, used).has_same_disk
    assert begun(root, used).has_same_disk
