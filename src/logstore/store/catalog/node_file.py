"""The file ``logstore.node`` in a store's root: which node of which cluster the directory belongs to.

JSON, replaced as a whole::

    {"version": 1, "cluster_id": "...", "node_id": 1, "directory_id": "...", "life": 7, "is_trusted": true}

``life`` is the number of the node's newest registration, written before that is committed. A directory that says
another one than the registry is not the one that the node had then: it was wiped, or restored from a backup. Its
records are not trusted, and the file says so until every replica has left the sets that it was in: a process that
dies before that leaves the duty to the next one.

A snapshot of the store has the file of a directory that was never registered (`copied`): the copy may take the
node's place in the same cluster, is trusted by no registry, and is refused by other nodes and other clusters.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from logstore.errors import NotALogError
from logstore.log.directory.files import Directory
from logstore.store.catalog.topic_list import new_id

NODE_FILE = "logstore.node"


class NodeFile(NamedTuple):
    """The contents of the file."""

    cluster_id: str
    node: int
    directory_id: str
    life: int
    is_trusted: bool

    @classmethod
    def load(cls, root: Directory) -> NodeFile | None:
        """Load the file of a root; None if there is none.

        Raises:
            NotALogError: it holds something else.
            StorageError: it cannot be read.
        """
        data = root.read(NODE_FILE)
        if data is None:
            return None
        try:
            found = json.loads(data)
            loaded = cls(
                found["cluster_id"], found["node_id"], found["directory_id"], found["life"], found["is_trusted"]
            )
            if found["version"] != 1 or [type(each) for each in loaded] != [str, int, str, int, bool]:
                raise ValueError("values of other kinds")
        except (ValueError, KeyError, TypeError) as error:
            raise NotALogError(
                f"{NODE_FILE} is damaged ({error}): delete it, and the node begins again with what the others have",
                path=root.join(NODE_FILE),
            ) from error
        return loaded

    def copied(self) -> NodeFile:
        """Return the file of a copy of the directory: of the same node, never registered, and not trusted."""
        return self._replace(directory_id=new_id(), life=-1, is_trusted=False)

    def save(self, root: Directory) -> None:
        """Replace the file; durable on return."""
        contents = {
            "version": 1,
            "cluster_id": self.cluster_id,
            "node_id": self.node,
            "directory_id": self.directory_id,
            "life": self.life,
            "is_trusted": self.is_trusted,
        }
        root.replace(NODE_FILE, json.dumps(contents).encode() + b"\n", durable=True, whole=True)
