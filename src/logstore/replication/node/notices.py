"""What stands in a node's way, as lines of the log: each once until it changes, and once more when it is over."""

from __future__ import annotations

import logging

from logstore.replication.api import NodeId

_logger = logging.getLogger("logstore.replication.node")


class Notices:
    """The notices of one thread of a node, by their subjects."""

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self._said: dict[str, str] = {}

    def say(self, subject: str, what: str) -> None:
        """Log what is wrong with a subject, unless that was said last; an empty text if nothing is any more."""
        if self._said.get(subject, "") == what:
            return
        self._said[subject] = what
        if what:
            _logger.warning("node %d, %s: %s", self._node, subject, what)
        else:
            _logger.info("node %d, %s: works again", self._node, subject)
