"""Logs for the tests of this folder: those of the kit."""

from tests.kit.logs import (
    NOW_MS,
    at,
    crashed_copy,
    forget_sums,
    log_files,
    one_batch,
    open_log,
    tree,
    values_of,
)

__all__ = [
    "NOW_MS",
    "at",
    "crashed_copy",
    "forget_sums",
    "log_files",
    "one_batch",
    "open_log",
    "tree",
    "values_of",
]
