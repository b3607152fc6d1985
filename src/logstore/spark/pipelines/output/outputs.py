"""Outputs of a pipeline's queries, checked against their checkpoints before the queries start.

Spark's file sink skips a micro-batch whose number it has, and the sink of a topic does the same. This completes a
killed run correctly. But with another checkpoint, or an old copy, rows would be lost without an error. So an output
belongs to the query that has begun to fill it. A query is refused if its checkpoint

- is new, and the output is not;
- is another one than the output was filled with: ``_logstore.json`` in a directory names its query;
- is behind its output, or the output behind it: one of the two was restored from a copy, or emptied.

Only this module compares checkpoints and outputs. Driver only.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.errors import CheckpointMismatchError
from logstore.records import TopicPartition
from logstore.spark.pipelines import hadoop
from logstore.spark.pipelines.output.written import BATCH, LOG
from logstore.spark.pipelines.parameters import Parameters
from logstore.spark.pipelines.topics import backend
from logstore.store import commit_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: File that names the query that fills a directory. Spark skips names that begin with ``_``.
CLAIM = "_logstore.json"

_IDENTITIES = uuid.UUID("1c8c2f7e-8a0c-4a0c-9f0b-6f1d6f1f8f5a")


class Checkpoint(NamedTuple):
    """Progress of a query, read from its checkpoint."""

    path: str
    query: str  #: Spark's id of the query; "" before its first start
    begun: int  #: the newest micro-batch that was begun, -1 before the first
    ended: int  #: the newest that has ended

    @property
    def is_new(self) -> bool:
        return self.begun < 0

    @classmethod
    def read(cls, spark: SparkSession, path: str) -> Checkpoint:
        query = query_of(spark, path) if hadoop.exists(spark, f"{path}/metadata") else ""
        return cls(path, query, newest(spark, f"{path}/offsets"), newest(spark, f"{path}/commits"))


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """Return Spark's id of the query that was started with a checkpoint."""
    return str(json.loads(hadoop.read_text(spark, f"{checkpoint}/metadata"))["id"])


def newest(spark: SparkSession, log: str) -> int:
    """Return the newest micro-batch that one of Spark's logs has, -1 if none."""
    found = (BATCH.fullmatch(name) for name in hadoop.names(spark, log))
    return max((int(match[1]) for match in found if match), default=-1)


class Output(ABC):
    """Output that one query fills."""

    @abstractmethod
    def check(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint that does not belong to it.

        Raises:
            CheckpointMismatchError: it is another one, or behind; nothing was started, and nothing has changed.
        """

    def prepare(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        """Prepare the output for the first start of a query that fills it."""
        return

    def claim(self, spark: SparkSession, checkpoint: str, query: str) -> None:
        """Record that the output belongs to a query, which has just been started.

        Raises:
            CheckpointMismatchError: it belongs to another one, which was started concurrently.
        """
        return


class DirectoryOutput(Output):
    """A directory of Spark's file sink."""

    def __init__(self, path: str) -> None:
        self.path = path

    def check(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        written = newest(spark, f"{self.path}/{LOG}")
        owner = self._owner(spark)
        by = f", the query of checkpoint {owner['checkpoint']}" if owner else ""
        if checkpoint.is_new:
            if written >= 0:
                raise CheckpointMismatchError(
                    f"{self.path} was filled by another run{by}, up to its micro-batch {written}; checkpoint "
                    f"{checkpoint.path} is new, and as many of its micro-batches would be lost. {_advice(owner)}"
                )
        elif owner and owner["query"] != checkpoint.query:
            raise CheckpointMismatchError(
                f"{self.path} was filled by another run{by}, and not by that of {checkpoint.path}. {_advice(owner)}"
            )
        elif written > checkpoint.begun:
            raise CheckpointMismatchError(
                f"checkpoint {checkpoint.path} has come to micro-batch {checkpoint.begun}, and {self.path} has "
                f"{written} of it, as if the checkpoint had been restored from a copy: the next batches would be "
                "lost. Restore the newest checkpoint; or begin again, with a new checkpoint and a new directory"
            )
        elif written < checkpoint.ended:
            raise CheckpointMismatchError(
                f"{self.path} has no micro-batch {checkpoint.ended}, and checkpoint {checkpoint.path} says that it "
                "was written, as if the directory had been emptied or restored from a copy. Restore the newest "
                "copy; or begin again, with a new checkpoint and a new directory"
            )

    def claim(self, spark: SparkSession, checkpoint: str, query: str) -> None:
        owner = self._owner(spark)
        if owner is not None and owner["query"] != query and newest(spark, f"{self.path}/{LOG}") < 0:
            # The claim of a run that found nothing to write would block this query for ever.
            hadoop.delete(spark, f"{self.path}/{CLAIM}")
            owner = None
        if owner is None:
            with contextlib.suppress(FileExistsError):
                words = json.dumps({"query": query, "checkpoint": checkpoint})
                hadoop.write_text(spark, f"{self.path}/{CLAIM}", words + "\n")
            owner = self._owner(spark)
        if owner is None or owner["query"] != query:
            raise CheckpointMismatchError(f"{self.path} is being filled by another run. {_advice(owner)}")

    def _owner(self, spark: SparkSession) -> dict[str, Any] | None:
        """Return the directory's claim; None if no run has begun, or one of an earlier version has."""
        claim = f"{self.path}/{CLAIM}"
        found: dict[str, Any] | None = (
            json.loads(hadoop.read_text(spark, claim)) if hadoop.exists(spark, claim) else None
        )
        return found


def _advice(owner: dict[str, Any] | None) -> str:
    back = f" {owner['checkpoint']}" if owner else ""
    return f"Continue with its own checkpoint{back}; or give another directory for this one"


class TopicOutput(Output):
    """A topic of the pipeline's store.

    ``source`` names the source that fills it, where other queries may fill it too; by default only one query may.
    With ``again`` a new checkpoint may fill it once more: only the newest record of a key counts.
    """

    def __init__(self, parameters: Parameters, name: str, source: str = "", *, again: bool = False) -> None:
        self.parameters = parameters
        self.name = name
        self.source = source
        self.again = again

    def check(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        if not checkpoint.is_new:
            self._check_not_behind(checkpoint)
        elif self.source:
            self._check_unknown(checkpoint)
        elif not self.again:
            self._check_empty(checkpoint)

    def prepare(self, spark: SparkSession, checkpoint: Checkpoint) -> None:
        if self.source and self.parameters.path and not checkpoint.query:
            # Spark uses the id that it finds. With a random one, a query whose checkpoint is lost would be unknown.
            with contextlib.suppress(FileExistsError):  # another run was started concurrently
                hadoop.write_text(spark, f"{checkpoint.path}/metadata", json.dumps({"id": self._query()}))

    def _check_not_behind(self, checkpoint: Checkpoint) -> None:
        done = commit_client.newest_batch(self.parameters.path, checkpoint.query) if self.parameters.path else -1
        if done > checkpoint.begun:
            raise CheckpointMismatchError(
                f"checkpoint {checkpoint.path} has come to micro-batch {checkpoint.begun}, and topic {self.name} "
                f"has {done} of it, as if the checkpoint had been restored from a copy: the next batches would "
                "be lost. Restore the newest checkpoint; or begin again, with a new checkpoint and a new topic"
            )

    def _check_empty(self, checkpoint: Checkpoint) -> None:
        facts = backend(self.parameters, self.name)
        places = [TopicPartition(self.name, number) for number in range(facts.topic(self.name).partitions)]
        if any(facts.latest(places).values()):
            raise CheckpointMismatchError(
                f"topic {self.name} has been written, and checkpoint {checkpoint.path} is new: its records "
                "would be written a second time. Go on with the checkpoint that it was written with; or give "
                "another topic, or delete this one first"
            )

    def _check_unknown(self, checkpoint: Checkpoint) -> None:
        # A broker does not record queries.
        done = commit_client.newest_batch(self.parameters.path, self._query()) if self.parameters.path else -1
        if done >= 0:
            raise CheckpointMismatchError(
                f"topic {self.name} has been written from {self.source} by another run, up to its micro-batch "
                f"{done}; checkpoint {checkpoint.path} is new, and all of it would be written a second time. "
                "Continue with the checkpoint of that run; or give another topic, or delete this one first"
            )

    def _query(self) -> str:
        """Return the id of the query that fills this topic from this source."""
        return str(
            uuid.uuid5(_IDENTITIES, f"{self.source}\n{backend(self.parameters, self.name).topic(self.name).id}")
        )


def __getattr__(name: str) -> object:
    if name not in ("Directory", "Topic"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from logstore.renamed import warn

    warn(f"{__name__}.{name}", f"{__name__}.{name}Output")
    return globals()[f"{name}Output"]
