"""Runs other programs for the release: quiet when they succeed, everything they said when they do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


class ReleaseError(Exception):
    """The release stops here; the message says at what."""


def say(text: str) -> None:
    print(f"==> {text}", flush=True)


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command.

    Raises:
        ReleaseError: it ended with another status than 0; the message holds all that it printed.
    """
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise ReleaseError(f"{' '.join(str(part) for part in command)}\nended with {done.returncode}:\n{said}")
    return done.stdout


def tool(name: str) -> Path:
    """A program that was installed beside this interpreter."""
    return Path(sys.executable).parent / name
