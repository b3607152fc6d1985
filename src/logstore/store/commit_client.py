"""Commit of staged files by any process: it opens the store briefly, or asks the process that has it open.

`requests.asking` is responsible for choosing between the two. Exactly once does not depend on it:
`StoreHost.ingest` knows which batches it has ingested, so a batch may be committed again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import Setting
from logstore.config.store import StoreConfig
from logstore.io._files import LIBC, Files
from logstore.log.directory.files import Directory
from logstore.store.commit.commit_log import read_states
from logstore.store.commit.ingest import Ingested
from logstore.store.commit.kept import Kept, newest
from logstore.store.commit.staged_writer import Manifest, remove_staged
from logstore.store.host import briefly
from logstore.store.requests.asking import ask, check
from logstore.store.requests.requests import Intake
from logstore.store.store import open_store
from logstore.topic_names import SINKS


def commit(
    root: str | os.PathLike[str],
    manifest: Manifest,
    *,
    timeout_s: float,
    settings: Mapping[str, Setting] | StoreConfig | None = None,
    files: Files = LIBC,
    clock: Clock = SYSTEM_CLOCK,
) -> Ingested:
    """Ingest the staged files of a manifest; durable and visible together on return.

    Done by this process if no other writes the store, with ``settings`` of the store (those that its other writers
    give). Otherwise the writing process does it: it gets ``timeout_s`` to start, and as long again to finish.

    Raises:
        OwnerTimeoutError: the process that writes the store does not answer; it is named.
        NotALogError: there is no store.
        LogstoreError: as `StoreHost.ingest`, here or in the owner's process.
    """
    directory = Directory(root, files)
    manifest = manifest._replace(files=tuple(manifest.files)).check()
    opener = partial(briefly, directory.path, settings, patient=False, clock=clock, files=files)
    return ask(directory, Intake(manifest), opener, timeout_s=timeout_s, clock=clock)


def abort(root: str | os.PathLike[str], manifest: Manifest, *, files: Files = LIBC) -> None:
    """Remove the staged files of a manifest that is not to be ingested. Never touches a log.

    A batch that an owner is ingesting at this moment may be ingested nevertheless; committing the same batch
    again tells whether it was.
    """
    manifest = manifest._replace(files=tuple(manifest.files)).check()
    remove_staged(Directory(root, files), manifest.files)


def newest_batch(root: str | os.PathLike[str], query: str, *, files: Files = LIBC) -> int:
    """Return the newest ingested batch of a query, -1 if none, for any process; see `StoreHost.ingest`.

    Raises:
        NotALogError: there is no store.
        CorruptRecordError: the store's record of its queries is damaged.
    """
    kept = Kept.load(Directory(root, files))
    with open_store(root, read_only=True, environ={}, files=files) as store:
        found = read_states(store._host._log_of(SINKS, 0)) if SINKS in store else {}
    state = newest(found, kept.sinks if kept else {}).get(query)
    return -1 if state is None else state.done


__all__ = ["abort", "check", "commit", "newest_batch"]
