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

#: Where Spark's file sink keeps its list, in the directory that it writes.
LOG: Final = "_spark_metadata"
#: Names of the files that Spark keeps for micro-batches: 12, or 9.compact for all up to that one.
BATCH: Final = re.compile(r"(\d+)(\.compact)?")


def files_of(directory: str | os.PathLike[str]) -> list[str]:
    """The files that count, each once, in the order in which they were written.

    Raises:
        NotALogError: Spark has written no such list there.
    """
    root = local_path(directory)
    log = os.path.join(root, LOG)
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
    batches = {name: match for name in os.listdir(log) if (match := BATCH.fullmatch(name))}
    newest = max((int(match[1]) for match in batches.values() if match[2]), default=-1)
    number = {name: int(match[1]) for name, match in batches.items()}
    kept = (name for name in batches if number[name] > newest or (number[name] == newest and batches[name][2]))
    return sorted(kept, key=number.__getitem__)


__all__ = ["BATCH", "LOG", "files_of"]
