"""Handing a manifest to the process that writes the store, or taking it in without one."""

from __future__ import annotations

import os

from logstore._files import LIBC, Files
from logstore.log.files import Directory
from logstore.store.ingest import Ingested
from logstore.store.staging import Manifest, remove_staged


def commit(root: str | os.PathLike[str], manifest: Manifest, *, timeout_s: float) -> Ingested:
    """Have the staged files of a manifest taken in: by this process, or by the one that writes the store."""
    from logstore.store.store import open_store

    with open_store(root, {"logstore.housekeeping": "manual"}, create=False) as store:
        return store.ingest(manifest)


def abort(root: str | os.PathLike[str], manifest: Manifest, *, files: Files = LIBC) -> None:
    """Remove the staged files of a manifest that is not to be taken in. Never touches a log."""
    remove_staged(Directory(root, files), manifest.check().files)


__all__ = ["abort", "commit"]
