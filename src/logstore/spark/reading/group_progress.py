"""Progress of a stream as committed offsets of a group, where the tools of stores and clusters look for lag.

A stream never reads them: its checkpoint says where it goes on. So a commit that fails is logged, and the next
batch commits again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from logstore.errors import LogstoreError
from logstore.records import TopicPartition
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.offsets import StreamOffsets
from logstore.spark.reading.options import ReadOptions

_logger = logging.getLogger(__name__)


class GroupProgress:
    """Commits what a stream has read for the group of ``commitGroup``; does nothing without one."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._problem = ""  # which was logged
        self._told: Mapping[TopicPartition, int] = {}

    def tell(self, reached: StreamOffsets) -> None:
        """Commit the offsets that a batch has reached. Fails silently but for one line for each new problem."""
        group = self._options.commit_group
        if group is None or reached.is_first or reached.offsets == self._told:
            return
        try:
            backend_of(self._options).commit(group, reached.offsets)
        except LogstoreError as error:
            said = f"{type(error).__name__}: {error}"
            if said != self._problem:
                _logger.warning(
                    "offsets are not committed: group=%s problem=%s; the query goes on, and its next batch commits",
                    group,
                    said,
                )
            self._problem = said
        else:
            self._problem, self._told = "", reached.offsets
