"""Old module names, from before the modules moved into folders: kept for one release, each with a warning.

Python asks `Renamed` only for modules that it has not found otherwise: `logstore` adds its finder last to
`sys.meta_path`. An old module has the names of the new one: classes are the same objects.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType

#: Old name -> new name, for the modules that the documentation named. `logstore.wire` was a folder.
NAMES = {
    "logstore.client_config": "logstore.config.client",
    "logstore.log.appender": "logstore.log.append.appender",
    "logstore.log.reader": "logstore.log.read.reader",
    "logstore.settings": "logstore.config.schema",
    "logstore.spark.java": "logstore.spark.jvm",
    "logstore.spark.pipelines.outputs": "logstore.spark.pipelines.output.outputs",
    "logstore.spark.pipelines.session": "logstore.spark.pipelines.running.session",
    "logstore.spark.pipelines.written": "logstore.spark.pipelines.output.written",
    "logstore.store.administering": "logstore.store.descriptions",
    "logstore.store.adopt": "logstore.store.admin.kafka_directories",
    "logstore.store.consumer": "logstore.client.consumer",
    "logstore.store.dbapi": "logstore.client.dbapi",
    "logstore.store.inbox": "logstore.store.commit_client",
    "logstore.store.ingest": "logstore.store.commit.ingest",
    "logstore.store.lag": "logstore.client.lag",
    "logstore.store.partitioners": "logstore.client.partitioners",
    "logstore.store.payload": "logstore.columns.value_schema",
    "logstore.store.producer": "logstore.client.producer",
    "logstore.store.rebuild": "logstore.store.admin.rebuild",
    "logstore.store.replay": "logstore.store.commit.restore",
    "logstore.store.scans": "logstore.client.scan.topic_scan",
    "logstore.store.snapshots": "logstore.store.admin.snapshots",
    "logstore.store.staging": "logstore.store.commit.staged_writer",
    "logstore.store.streams": "logstore.client.streams",
    "logstore.store_config": "logstore.config.store",
    "logstore.wire": "logstore.protocol",
    "logstore.wire.client": "logstore.remote.client",
    "logstore.wire.frames": "logstore.protocol.frames",
    "logstore.wire.message": "logstore.protocol.message",
    "logstore.wire.messages": "logstore.protocol.generated.messages",
    "logstore.wire.producer": "logstore.remote.producer",
}


def warn(old: str, new: str) -> None:
    """Warn the caller's caller that a name has changed."""
    warnings.warn(f"{old} is {new} now; the next release deletes the old name", DeprecationWarning, 3)


def former(owner: str, names: Mapping[str, tuple[str, str]]) -> Callable[[object, str], object]:
    """Return the ``__getattr__`` of a class with former names, each with advice and the attribute that it is now.

    The attribute may be one of a part, such as ``replica.epochs``.
    """

    def find(self: object, name: str) -> object:
        if name not in names:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        advice, now = names[name]
        warn(f"{owner}.{name}", advice)
        return attrgetter(now)(self)

    return find


class Renamed(Loader):
    """Loader of modules by their old names."""

    @staticmethod
    def find_spec(name: str) -> ModuleSpec | None:
        if name not in NAMES:
            return None
        # Python imports `logstore.wire.client` and others only below a package.
        return ModuleSpec(name, Renamed(), is_package=name == "logstore.wire")

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__
        warn(old, NAMES[old])
        found = importlib.import_module(NAMES[old])
        module.__dict__.update({name: value for name, value in vars(found).items() if not name.startswith("__")})
        module.__doc__ = found.__doc__
