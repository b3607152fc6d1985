"""Builds the source distribution from the last commit, and each wheel from the source distribution.

Nothing that lies about in the work tree gets in: the commit is cloned, and pip unpacks the source distribution
into a directory of its own for each wheel. A `build/` that is used twice puts extensions of one Python into the
wheel of another.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

from release.commands import ReleaseError, run, say, tool
from release.contents import complaints_of_sdist, complaints_of_wheel
from release.interpreters import Version, text_of
from release.same import rewrite_sdist


def clone_of(repository: Path, work: Path) -> tuple[Path, list[str], int]:
    """(a clean clone of the last commit with its tags, the files it tracks, the commit's time in seconds)."""
    if run("git", "status", "--porcelain", cwd=repository).strip():
        say("build: uncommitted changes are left out")
    source = work / "source"
    run("git", "clone", "--quiet", "--no-local", repository, source)
    tracked = run("git", "ls-files", cwd=source).splitlines()
    return source, tracked, int(run("git", "log", "-1", "--format=%ct", cwd=source))


def build_sdist(source: Path, tracked: list[str], work: Path, seconds: int) -> Path:
    """The source distribution; ``seconds`` is the time of everything in it."""
    # Nothing has to be translated for it: the files in it are those that git tracks.
    env = {"LOGSTORE_BUILD_EXTENSIONS": "0", "SOURCE_DATE_EPOCH": str(seconds)}
    run(tool("python"), "-m", "build", "--sdist", "--no-isolation", "--outdir", work / "sdist", source, env=env)
    (path,) = (work / "sdist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    _refuse(path, complaints_of_sdist(names, tracked))
    rewrite_sdist(path, seconds)
    return path


def build_wheel(
    python: Path, version: Version, sdist: Path, tracked: list[str], work: Path, seconds: int, *, abi3: bool
) -> Path:
    """A wheel for this Python alone, or with ``abi3`` for it and every later one; `checks.repair` finishes it."""
    kind = f"{'abi3-' if abi3 else ''}{text_of(version)}"
    environment, out = work / f"build-{kind}", work / f"built-{kind}"
    run(python, "-m", "venv", environment)
    settings = work / "build.cfg"
    settings.write_text(f"[build_ext]\nparallel = {os.cpu_count()}\n")
    env = {
        "DIST_EXTRA_CONFIG": str(settings),
        "LOGSTORE_BUILD_JOBS": str(os.cpu_count()),
        "LOGSTORE_BUILD_ABI3": text_of(version) if abi3 else "",
        "SOURCE_DATE_EPOCH": str(seconds),
    }
    run(environment / "bin" / "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", out, sdist, env=env)
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        _refuse(path, complaints_of_wheel(wheel.namelist(), tracked, abi3=abi3))
    return path


def _refuse(path: Path, complaints: list[str]) -> None:
    if complaints:
        raise ReleaseError(f"{path.name} is not what it should be:\n" + "\n".join(complaints))
