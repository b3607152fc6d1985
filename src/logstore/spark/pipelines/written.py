"""Which files of a directory Spark's file sink has written whole, for readers other than Spark.

What a killed run has left lies beside them, and would be counted twice: a pattern such as ``*.parquet`` takes it
for good. Spark goes by the list that it keeps in ``_spark_metadata``, and this reads the same. Needs no Spark; for
directories of this machine.

    >>> files_of("warehouse/records")  # doctest: +SKIP
    ['/data/warehouse/records/topic=page-views/day=2026-11-02/part-00000-1c8c.c000.zstd.parquet']
"""

from __future__ import annotations

import json
import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from logstore.errors import NotALogError
from logstore.paths import local_path

_LOG: Final = "_spark_metadata"
_BATCH: Final = re.compile(r"(\d+)(\.compact)?")


def files_of(directory: str | os.PathLike[str]) -> list[str]:
    """The files that count, each once, in the order in which they were written.

    Raises:
        NotALogError: Spark has written no such list there.
    """
    root = local_path(directory)
    log = os.path.join(root, _LOG)
    if not os.path.isdir(log):
        raise NotALogError("no stream of Spark has written files here: there is no _spark_metadata", path=root)
    found: dict[str, None] = {}
    for name in _names(log):
        with open(os.path.join(log, name), encoding="utf-8") as file:
            for line in file.read().splitlines()[1:]:  # behind the version
                entry = json.loads(line)
                path = unquote(urlsplit(entry["path"]).path)
                if entry["action"] == "add":
                    found[path] = None
                else:
                    found.pop(path, None)
    return list(found)


def _names(log: str) -> list[str]:
    """The files of the list that count: the newest that has all before it, and what came after it."""
    batches = {name: match for name in os.listdir(log) if (match := _BATCH.fullmatch(name))}
    newest = max((int(match[1]) for match in batches.values() if match[2]), default=-1)
    kept = [name for name, match in batches.items() if match[2] or int(match[1]) > newest]
    kept = [name for name in kept if int(batches[name][1]) >= newest]
    return sorted(kept, key=lambda name: int(batches[name][1]))


__all__ = ["files_of"]
