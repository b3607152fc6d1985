"""Real file systems of a few MB, made in a file and mounted: for root only."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_PACKAGES = {"mkfs.btrfs": "btrfs-progs", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mount": "mount"}


def need(*programs: str) -> None:
    """Fail with what is missing. Their caller has asked for these tests: a skip would look like a proof."""
    if os.geteuid() != 0:
        pytest.fail("only root may mount a file system: run it as root (sudo make interop)", pytrace=False)
    for program in programs:
        if shutil.which(program) is None:
            pytest.fail(f"{program} is missing: apt install {_PACKAGES[program]}", pytrace=False)


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}", pytrace=False)


def make(image: Path, kind: str, megabytes: int, *options: object) -> Path:
    """A file that holds an empty file system; it takes no more room than what is written to it."""
    need(f"mkfs.{kind}")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    run(f"mkfs.{kind}", "-q", *options, image)
    return image


@contextlib.contextmanager
def mounted(source: Path | str, at: Path, *options: str) -> Iterator[Path]:
    """A file system, mounted while the block runs."""
    need("mount")
    at.mkdir(exist_ok=True)
    run("mount", *options, source, at)
    try:
        yield at
    finally:
        # Busy while a killed process is still on its way out.
        for _ in range(50):
            if subprocess.run(["umount", str(at)], capture_output=True, check=False).returncode == 0:
                break
            subprocess.run(["sleep", "0.1"], check=True)
        else:
            run("umount", "--lazy", at)
