"""A class name means one thing: no two classes of `logstore` have the same name.

Files are read as text and never imported, Cython's too. Apart are what Kafka names (generated messages), the
declarations of a compiled class beside its code (.pxd and .pyi), and `logstore.aio`, whose classes have the names
of the classes that they make asynchronous.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "logstore"
APART = ("protocol/generated/", "aio/")
_CLASS = re.compile(r"^[ \t]*(?:cdef )?class (?P<name>\w+)", re.MULTILINE)


def test_no_two_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py*")):
        module = path.relative_to(SOURCE).as_posix()
        if path.suffix in (".py", ".pyx") and not module.startswith(APART):
            for found in _CLASS.finditer(path.read_text("utf-8")):
                homes[found["name"]].append(module)
    assert len(homes) > 300, "the classes are no longer found"
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}
