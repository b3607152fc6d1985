"""Finds the Python interpreters that a release is built for and tried on.

Answers only for where they are: an interpreter counts if it starts, is the version asked for, and brings what
a build needs (headers, `venv`, `ensurepip`). A version manager's stand-in that only prints advice does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

Version = tuple[int, int]

WHEELS: tuple[Version, ...] = ((3, 11), (3, 12), (3, 13))  #: each has a wheel of its own
ABI3: Version = (3, 12)  #: the stable ABI's floor: one wheel for this Python and every later one

_PROBE = """
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(sys.version_info[:2] != ({}, {}) or not os.path.exists(header))
"""


def text_of(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def candidates(version: Version) -> Iterator[Path]:
    """Where an interpreter of this version may be: every folder of PATH, then what pyenv has installed."""
    name = f"python{text_of(version)}"
    for folder in os.get_exec_path():
        path = Path(folder) / name
        if os.access(path, os.X_OK):
            yield path
    root = os.environ.get("PYENV_ROOT")
    if root is None and (pyenv := shutil.which("pyenv")):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
    if root:
        yield from sorted(Path(root).glob(f"versions/{text_of(version)}.*/bin/{name}"), reverse=True)


def is_usable(path: Path, version: Version) -> bool:
    done = subprocess.run([path, "-I", "-c", _PROBE.format(*version)], capture_output=True, check=False)
    return done.returncode == 0


def older() -> tuple[Version, Path] | None:
    """An interpreter that is too old for logstore, with pip; the newest that there is."""
    for version in ((3, 10), (3, 9), (3, 8)):
        for path in candidates(version):
            done = subprocess.run([path, "-I", "-m", "pip", "--version"], capture_output=True, check=False)
            if done.returncode == 0:
                return version, path
    return None


def find(versions: Iterable[Version] = WHEELS) -> tuple[dict[Version, Path], list[Version]]:
    """(the first usable interpreter of each version, the versions that this machine lacks)."""
    found: dict[Version, Path] = {}
    lacking = []
    for version in versions:
        path = next((path for path in candidates(version) if is_usable(path, version)), None)
        if path is None:
            lacking.append(version)
        else:
            found[version] = path
    return found, lacking
