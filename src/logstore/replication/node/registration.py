"""A node's registration: its session with the registry, its life, and the directory that belongs to it.

Two nodes with one id, and a directory of another node or of another cluster, are refused here.
"""

from __future__ import annotations

import json

from logstore.errors import InvalidSettingError, MalformedFactError, StaleFactError
from logstore.log.directory.files import Directory
from logstore.replication import facts
from logstore.replication.api import Change, Create, Delete, Fact, NodeId, Registry, Write
from logstore.store.catalog.node_file import NodeFile
from logstore.store.catalog.topic_list import new_id

CLUSTER_ID = "/cluster/id"


class NodeRegistration:
    """The identity of one process of a node. `register` is called once for each session."""

    def __init__(self, root: Directory, node: NodeId, cluster_id: str, rack: str | None = None) -> None:
        self._root = root
        self.node = node
        self.rack = rack
        self._own_cluster_id = cluster_id  # of the store: a new cluster takes it
        self._file = NodeFile.load(root)
        self._new_id = new_id()  # of the directory, if it has none
        self.life = -1
        #: `Fact.created` of this life's first session: what is created later is younger than this life.
        self.created = -1
        self.has_same_disk = False  #: whether the directory is the one that the node had in its last life

    def register(self, registry: Registry) -> bool:
        """Register the node; False if its predecessor's session has not ended yet: try again later.

        Raises:
            InvalidSettingError: the directory belongs to another node or cluster.
            MalformedFactError: what stands under the number of this node is not ours.
            RegistryUnreachableError: as `Registry.commit`.
        """
        cluster_id = self._cluster_id(registry)
        directory_id = self._check_file(cluster_id)
        own = facts.id_path(self.node)
        before, life = registry.read(own), registry.read(facts.life_path(self.node))
        changes: list[Change] = []
        if before is not None:
            registered = _directory_of(before.value)
            if registered is None:
                raise MalformedFactError(f"{own}: found {before.value!r}", fact=own)
            if registered != directory_id:
                return False
            # Of this directory, whose lock this process has: an earlier process, or an earlier session of this one.
            changes.append(Delete(own, before.version))
        if self.life < 0:
            path, value = facts.life_path(self.node), directory_id.encode()
            self._claim(cluster_id, directory_id, life)
            changes.append(Create(path, value) if life is None else Write(path, value, life.version))
        changes.append(Create(own, facts.encode_node(directory_id, self.rack), ephemeral=True))
        try:
            fact = registry.commit(changes)[-1]
        except StaleFactError:
            return False
        if self.life < 0:
            assert self._file is not None
            assert fact is not None
            self.life, self.created = self._file.life, fact.created
        return True

    def _claim(self, cluster_id: str, directory_id: str, last: Fact | None) -> None:
        """Store the number of the life that is about to be registered, and whether the directory is to be trusted.

        Stored before the commit: a process that dies in between has changed nothing, and is the same directory
        still. Stored after it, that process would leave a directory that says an earlier life than the registry.
        """
        number = -1 if last is None else last.version
        file = self._file
        # The commit of the number in the file took place, or it did not.
        is_ours = last is None or last.value == directory_id.encode()
        knows = file is not None and ((number == file.life and is_ours) or number == file.life - 1)
        # In a cluster that has never seen this node, no directory can have lost anything. But a registry that was
        # lost, and made again, has not seen the node of a copy either.
        self.has_same_disk = last is None if file is None else file.is_trusted and (last is None or knows)
        self._file = NodeFile(cluster_id, self.node, directory_id, number + 1, self.has_same_disk)
        self._file.save(self._root)

    def check_believed(self, registry: Registry) -> None:
        """Check that a registry is the one that this life was registered in, and has not lost anything since.

        Raises:
            MalformedFactError: it is of another cluster, knows another life, or the last life was another one.
        """
        file, path = self._file, facts.life_path(self.node)
        cluster = registry.read(CLUSTER_ID)
        if file is None or cluster is None or _cluster_of(cluster) != file.cluster_id:
            raise MalformedFactError(f"{CLUSTER_ID}: found {cluster and cluster.value!r}", fact=CLUSTER_ID)
        life = registry.read(path)
        if life is None or life.version != self.life or life.value != file.directory_id.encode():
            found = "nothing" if life is None else f"version {life.version} of {life.value!r}"
            raise MalformedFactError(f"{path}: found {found}, and registered version {self.life}", fact=path)
        if not self.has_same_disk:
            raise MalformedFactError(
                f"{path}: registry or directory were restored before this node began; its next start goes on",
                fact=path,
            )

    def confirm(self) -> None:
        """Record that every replica has left the sets that it must not be in: the directory is trusted from now on.

        Until then the next process is not trusted either.
        """
        if self._file is not None and not self._file.is_trusted:
            self._file = self._file._replace(is_trusted=True)
            self._file.save(self._root)

    def _cluster_id(self, registry: Registry) -> str:
        found = registry.read(CLUSTER_ID)
        if found is None:
            try:
                [found] = registry.commit([Create(CLUSTER_ID, _encoded(self._own_cluster_id))])
            except StaleFactError:
                found = registry.read(CLUSTER_ID)
        assert found is not None
        return _cluster_of(found)

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


def _cluster_of(fact: Fact) -> str:
    try:
        return str(json.loads(fact.value)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedFactError(f"{CLUSTER_ID}: found {fact.value!r}", fact=CLUSTER_ID) from error


def _encoded(cluster_id: str) -> bytes:
    return json.dumps({"version": "1", "id": cluster_id}).encode()


def _directory_of(value: bytes) -> str | None:
    try:
        found = json.loads(value)["directory_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)
