"""Old names of modules and of attributes: kept for one release, each with a warning.

`keep_names` serves classes, `Renamed` modules. Python asks `Renamed` only for modules that it has not found
otherwise: `logstore` adds its finder last to `sys.meta_path`. An old module has the names of the new one: classes
are the same objects.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

#: Old name -> new name, for the modules that the documentation named. `logstore.wire` was a folder.
NAMES = {
    "logstore.client.offsets": "logstore.store.committed_offsets",
    "logstore.client_config": "logstore.config.client",
    "logstore.config.generated_keywords": "logstore.config.generated.keywords",
    "logstore.log.appender": "logstore.log.append.appender",
    "logstore.log.reader": "logstore.log.read.reader",
    "logstore.log.watermark": "logstore.log.marks.policies",
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


def warn(old: str, new: str, *, level: int = 3) -> None:
    """Warn that a name has changed: the caller's caller, or one that is ``level`` frames up."""
    warnings.warn(f"{old} is {new} now; the next release deletes the old name", DeprecationWarning, level)


class Former:
    """A former name of a class: each use warns. A `__getattr__` would make every other attribute slower."""

    def __init__(self, kind: str, name: str, advice: str, found: str | Callable[..., Any]) -> None:
        self._old = f"{kind}.{name}"
        self._advice = advice
        self._get = attrgetter(found) if isinstance(found, str) else partial(partial, found)

    def __get__(self, instance: Any, _owner: type | None = None) -> Any:
        if instance is None:
            return self
        warn(self._old, self._advice)
        return self._get(instance)


def keep_names(
    kind: str, names: Mapping[str, tuple[str, str | Callable[..., Any]]]
) -> Callable[[type[T]], type[T]]:
    """Decorate a class so that its former names work. `dir` of an object does not list them.

    ``names`` has the replacement of each, for the warning, and where its value is found: a path of attributes, or
    a function that becomes a method.
    """

    def kept(owner: type[T]) -> type[T]:
        def __dir__(self: object) -> list[str]:
            return [name for name in object.__dir__(self) if name not in names]

        for name, (advice, found) in names.items():
            setattr(owner, name, Former(kind, name, advice, found))
        setattr(owner, "__dir__", __dir__)  # noqa: B010  # a type checker refuses the assignment
        return owner

    return kept


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
