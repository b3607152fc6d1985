"""Files of a directory that Spark's file sink has written completely, for readers other than Spark.

Files that a killed run has left are stored beside them, and would be counted twice: a pattern such as ``*.parquet``
includes them. Spark uses its list in ``_spark_metadata``, and so does this module. Needs no Spark; for directories
of this machine.

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

#: Directory of the list that Spark's file sink keeps, in the directory that it writes.
LOG: Final = "_spark_metadata"
#: Names of the files that Spark keeps for micro-batches: 12, or 9.compact for all up to that one.
BATCH: Final = re.compile(r"(\d+)(\.compact)?")


def files_of(directory: str | os.PathLike[str]) -> list[str]:
    """Return the completely written files, each once, in the order in which they were written.

    Raises:
        NotALogError: the directory has no list of Spark's file sink.
    """
    root = local_path(directory)
    log = os.path.join(root, LOG)
    if not os.path.isdir(log):
        raise NotALogError("the directory was written by no stream of Spark: it has no _spark_metadata", path=root)
    found: dict[str, None] = {}
    for name in _names(log):
        with open(os.path.join(log, name), encoding="utf-8") as file:
            for line in file.read().splitlines()[1:]:  # after the version
                entry = json.loads(line)
                path = unquote(urlsplit(entry["path"]).path)
                if entry["action"] == "add":
                    found[path] = None
                else:
                    found.pop(path, None)
    return list(found)


def _names(log: str) -> list[str]:
    """Return the current files of the list: the newest compacted one, and those after it."""
    batches = {name: match for name in os.listdir(log) if (match := BATCH.fullmatch(name))}
    newest = max((int(match[1]) for match in batches.values() if match[2]), default=-1)
    number = {name: int(match[1]) for name, match in batches.items()}
    kept = (name for name in batches if number[name] > newest or (number[name] == newest and batches[name][2]))
    return sorted(kept, key=number.__getitem__)
