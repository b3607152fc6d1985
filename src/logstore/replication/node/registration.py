"""A node's registration: its session with the registry, its life, and the directory that belongs to it.

Two nodes with one id, and a directory of another node or of another cluster, are refused here.
"""

from __future__ import annotations

import json
import uuid

from logstore.errors import InvalidSettingError, MalformedFactError, StaleFactError
from logstore.log.directory.files import Directory
from logstore.replication import facts
from logstore.replication.api import Change, Create, Delete, NodeId, Registry, Write
from logstore.replication.node.node_file import NodeFile

CLUSTER_ID = "/cluster/id"


class NodeRegistration:
    """The identity of one process of a node. `register` is called once for each session."""

    def __init__(self, root: Directory, node: NodeId, cluster_id: str) -> None:
        self._root = root
        self.node = node
        self._own_cluster_id = cluster_id  # of the store: a new cluster takes it
        self._file = NodeFile.load(root)
        self._new_id = uuid.uuid4().hex  # of the directory, if it has none
        self.life = -1
        self.created = (
            -1
        )  #: `Fact.created` of this life's first session: what is created later, begins in this life
        self.has_same_disk = False  #: whether the directory is the one that the node had in its last life

    def register(self, registry: Registry) -> bool:
        """Register the node; False if its predecessor's session has not ended yet: try again later.

        Raises:
            InvalidSettingError: the directory belongs to another node or cluster.
            RegistryUnreachableError: as `Registry.commit`.
        """
        cluster_id = self._cluster_id(registry)
        directory_id = self._check_file(cluster_id)
        own = facts.id_path(self.node)
        before, life = registry.read(own), registry.read(facts.life_path(self.node))
        changes: list[Change] = []
        if before is not None:
            if _directory_of(before.value) != directory_id:
                return False
            # Of this directory, whose lock this process has: an earlier process, or an earlier session of this one.
            changes.append(Delete(own, before.version))
        if self.life < 0:
            path = facts.life_path(self.node)
            changes.append(Create(path, b"") if life is None else Write(path, b"", life.version))
        value = json.dumps({"version": 4, "directory_id": directory_id}).encode()
        changes.append(Create(own, value, ephemeral=True))
        try:
            fact = registry.commit(changes)[-1]
        except StaleFactError:
            return False
        if self.life < 0:
            last = -1 if life is None else life.version
            self.has_same_disk = self._file is not None and self._file.life == last
            self.life = last + 1
            assert fact is not None
            self.created = fact.created
            self._file = NodeFile(cluster_id, self.node, directory_id, self.life)
            self._file.save(self._root)
        return True

    def _cluster_id(self, registry: Registry) -> str:
        found = registry.read(CLUSTER_ID)
        if found is None:
            try:
                [found] = registry.commit([Create(CLUSTER_ID, _encoded(self._own_cluster_id))])
            except StaleFactError:
                found = registry.read(CLUSTER_ID)
        assert found is not None
        try:
            cluster_id = json.loads(found.value)["id"]
        except (ValueError, KeyError, TypeError) as error:
            raise MalformedFactError(f"{CLUSTER_ID}: found {found.value!r}", fact=CLUSTER_ID) from error
        return str(cluster_id)

    def _check_file(self, cluster_id: str) -> str:
        """Return the id of the directory, a new one if it has none."""
        file = self._file
        if file is None:
            return self._new_id
        problems = {}
        if file.node != self.node:
            problems["node"] = f"{self._root.path} belongs to node {file.node}, not to node {self.node}"
        if file.cluster_id != cluster_id:
            problems["cluster"] = (
                f"{self._root.path} belongs to cluster {file.cluster_id}, and the registry is of {cluster_id}"
            )
        if problems:
            raise InvalidSettingError(problems)
        return file.directory_id


def _encoded(cluster_id: str) -> bytes:
    return json.dumps({"version": "1", "id": cluster_id}).encode()


def _directory_of(value: bytes) -> str | None:
    try:
        found = json.loads(value)["directory_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)
