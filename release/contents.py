"""What a source distribution and a wheel must hold, and what not. Pure: lists of names in, complaints out."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What is written by hand and compiled, or read beside what is compiled.
_SOURCE = re.compile(r"src/.*\.(py|pyi|pyx|pxd|h|json|toml|typed)")

#: What a wheel may hold outside its dist-info; `so` are the extensions.
_INSTALLED = re.compile(r"(logstore|pyspark_logstore)/(.*\.(py|pyi|pxd|h|json|toml|so)|py\.typed)")


def complaints_of_sdist(names: Iterable[str], tracked: Iterable[str]) -> list[str]:
    """Every tracked file must be in, and no generated one.

    ``names`` are relative to the folder that the archive unpacks to, ``tracked`` to the root of the repository.
    """
    inside = set(names)
    missing = sorted(set(tracked) - inside)
    generated = sorted(name for name in inside if name.endswith((".so", ".pyc", ".c")) and name.startswith("src/"))
    return [f"missing: {name}" for name in missing] + [f"generated: {name}" for name in generated]


def complaints_of_wheel(names: Iterable[str], tracked: Iterable[str], *, abi3: bool) -> list[str]:
    """Python files, stubs and declarations as they are in src/, one extension for each `.pyx`, and nothing else."""
    inside = {name for name in names if ".dist-info/" not in name}
    sources = [name.removeprefix("src/") for name in tracked if _SOURCE.fullmatch(name)]
    wanted = {name for name in sources if not name.endswith(".pyx")}
    extensions = {name.removesuffix(".pyx") for name in sources if name.endswith(".pyx")}
    built = {name.partition(".")[0]: name for name in inside if name.endswith(".so")}
    kind = ".abi3.so" if abi3 else ".cpython-"
    return [
        *(f"missing: {name}" for name in sorted(wanted - inside)),
        *(f"not compiled: {name}" for name in sorted(extensions - built.keys())),
        *(f"compiled from nothing: {name}" for name in sorted(built.keys() - extensions)),
        *(f"not {kind}: {name}" for name in sorted(built.values()) if kind not in name),
        *(f"does not belong: {name}" for name in sorted(inside) if not _INSTALLED.fullmatch(name)),
        *(
            f"not from src: {name}"
            for name in sorted(inside - wanted)
            if _INSTALLED.fullmatch(name) and name not in built.values()
        ),
    ]
