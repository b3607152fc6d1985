"""A copy of the package in which one compiled module has a bug: its source is changed before it is built.

Bugs in steps of Python are planted by `monkeypatch`; a compiled step has no such seam. A check then runs in a
process that has the copy before the package in its path. Everything in it but that module is a link to the package.
Run as a module, this one builds the copy.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

import logstore

PACKAGE = Path(logstore.__file__).parent
ROOT = Path(__file__).parents[2]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def needs_compiler(module: str) -> pytest.MarkDecorator:
    """Skip where a module cannot be built as it was: no sources, no Cython, or a build of another kind."""
    is_plain = (PACKAGE / f"{module}{SUFFIX}").exists() and importlib.util.find_spec("logstore_planted") is None
    can_build = (PACKAGE / f"{module}.pyx").exists() and importlib.util.find_spec("Cython") is not None
    return pytest.mark.skipif(not (is_plain and can_build), reason="no plain build from sources, or no Cython")


def package_with(to: Path, module: str, honest: str, planted: str) -> Path:
    """Write a copy of the package below a directory, in which these lines of a module are replaced."""
    shutil.copytree(
        PACKAGE,
        to / "logstore",
        copy_function=os.symlink,
        ignore=lambda _, names: [name for name in names if name in ("__pycache__", Path(module).name + SUFFIX)],
    )
    source = to / "logstore" / f"{module}.pyx"
    text = source.read_text()
    assert text.count(honest) == 1, f"{module} has other lines now: {honest}"
    source.unlink()
    source.write_text(text.replace(honest, planted))
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.compiled_plant", str(to), module],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert (to / "logstore" / f"{module}{SUFFIX}").exists()
    return to


def run_with(package: Path, check: Callable[..., object], *arguments: str) -> None:
    """Run a check of a test module in a process that has this package; raise AssertionError as the check does."""
    call = f"from {check.__module__} import {check.__name__} as check; check(Path(sys.argv[1]))"
    places = [str(package), str(ROOT), *(place for place in sys.path if place)]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; from pathlib import Path; {call}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=package,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
    )
    if done.returncode:
        raise AssertionError(done.stderr[-4000:])


def build(to: Path, module: str) -> None:
    """Build one module of the copy, in place."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    os.chdir(to)
    planted = Extension(
        "logstore." + module.replace("/", "."),
        [f"logstore/{module}.pyx"],
        include_dirs=["logstore"],
        extra_compile_args=["-O0", "-g0", "-w"],
    )
    directives = {"language_level": 3, "wraparound": False, "annotation_typing": False, "auto_pickle": False}
    made = Distribution({"ext_modules": cythonize([planted], compiler_directives=directives, build_dir="build")})
    command = made.get_command_obj("build_ext")
    command.build_lib, command.build_temp = ".", "build"
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2])
