"""Installs logstore from an index as a user would, into an empty environment, and runs the tour there."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from release.commands import ReleaseError, run

_REPORT = """
import json, sys
from importlib.metadata import distribution
found = distribution("logstore")
tags = [line.split()[1] for line in found.read_text("WHEEL").splitlines() if line.startswith("Tag:")]
import logstore
print(json.dumps([found.version, tags, logstore.__version__]))
"""


@dataclass(frozen=True)
class Installed:
    """An environment with logstore in it: which version, and the tags of the wheel that was chosen."""

    python: Path
    version: str
    tags: list[str]

    @property
    def is_abi3(self) -> bool:
        return all("-abi3-" in tag for tag in self.tags)


def install(python: Path, index_url: str, environment: Path, what: str | Path = "logstore") -> Installed:
    """Into a new environment without pip, by ``--index-url`` alone: no setting of this machine counts."""
    run(python, "-m", "venv", "--without-pip", environment)
    run(python, "-m", "venv", _pip_beside(environment))
    inside = environment / "bin" / "python"
    _pip_install(inside, index_url, what)
    version, tags, said = json.loads(run(inside, "-I", "-c", _REPORT, cwd=environment))
    if said != version:
        raise ReleaseError(f"logstore.__version__ is {said}, its metadata say {version}")
    return Installed(inside, version, tags)


def _pip_beside(environment: Path) -> Path:
    return environment.with_name(f"{environment.name}-pip")


def _pip_install(inside: Path, index_url: str, what: str | Path) -> None:
    pip = _pip_beside(inside.parent.parent) / "bin" / "python"
    run(
        *(pip, "-m", "pip", "--isolated", "--python", inside, "install", "--quiet", "--no-cache-dir"),
        *("--only-binary", ":all:", "--index-url", index_url, what),
    )


def taken(python: Path, index_url: str, folder: Path) -> str | None:
    """Which version pip takes for the bare name on that Python, of wheels alone; None if there is none for it.

    Of an index that says of no file which Python it is for, as pypiserver, pip would take our source distribution,
    and end with what its build lacks there.
    """
    command = (python, "-m", "pip", "--isolated", "download", "--quiet", "--no-deps", "--no-cache-dir")
    command += ("--only-binary", ":all:")
    try:
        run(*command, "--dest", folder, "--index-url", index_url, "logstore")
    except ReleaseError as error:
        if "No matching distribution found for logstore" in str(error):
            return None
        raise
    (file,) = folder.iterdir()
    return file.name.split("-")[1]


def run_tour(installed: Installed, tour: Path, directory: Path) -> str:
    """The tour's output, run where nothing of the source tree can be imported."""
    directory.mkdir(parents=True)
    copy = directory / tour.name
    shutil.copy(tour, copy)
    return run(installed.python, "-I", copy, cwd=directory)


def try_command(installed: Installed, index_url: str) -> None:
    """Add the extra ``[cli]``, and ask the command for its version and for a topic that it has made.

    Raises:
        ReleaseError: an answer is wrong.
    """
    _pip_install(installed.python, index_url, f"logstore[cli]=={installed.version}")
    command, store = installed.python.with_name("logstore"), installed.python.parent.parent / "store"
    said = run(command, "--version")
    run(command, "topic", "create", "tried", "--dir", store)
    listed = run(command, "topic", "list", "--dir", store)
    if installed.version not in said or "tried" not in listed:
        raise ReleaseError(f"the command says: {said}{listed}")
