"""The plugin as a user of logstore meets it: found by its entry point, and imported for nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import logstore

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(next(iter(logstore.__path__))).parent

TEST = """
import sys

# Before anything here asks for more: what the plugin alone has imported.
OURS = {name for name in sys.modules if name.partition(".")[0] == "logstore"}

def test_that_uses_nothing_imports_nothing():
    testing = {f"logstore.testing{name}" for name in ("", ".clock", ".plugin")}
    assert OURS == {"logstore", "logstore.clock", *testing}

def test_that_uses_a_store(logstore_store, logstore_clock):
    topic = logstore_store.create_topic("flights", 2)
    topic.append(b"AA 1141")
    logstore_clock.advance(10)
    assert topic.scan().count() == 1

def test_that_begins_with_an_empty_one(logstore_store, logstore_disk):
    assert logstore_store.topics() == []
    assert logstore_store._host.files is logstore_disk

from logstore.testing.conformance import ClockConformance

class TestWrong(ClockConformance):
    def make_clock(self):
        from logstore.clock import SystemClock
        class Wrong(SystemClock):
            def now_ms(self):
                return -5
        return Wrong()
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory that makes the package on the path one that is installed, as far as entry points go."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "logstore-2026.11.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: logstore\nVersion: 2026.11.0\n")
    lines = [f"{name} = {target}" for name, target in project["entry-points"]["pytest11"].items()]
    (info / "entry_points.txt").write_text("[pytest11]\n" + "\n".join(lines) + "\n")
    # As a wheel lists them: pytest looks there for what it should rewrite.
    names = [path.relative_to(PACKAGE) for path in (PACKAGE / "logstore").rglob("*.py")]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in names))
    return info.parent


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="no source tree around the tests")
def test_an_installed_logstore_gives_pytest_its_fixtures(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    environment = {**os.environ, "PYTHONPATH": f"{installed}:{PACKAGE}"}
    environment.pop("PYTEST_ADDOPTS", None)
    arguments = ["-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", "-q", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(tmp_path / "test_it.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    # One planted fault in a clock, told as pytest tells it: the asserts of a suite are rewritten.
    assert "1 failed" in done.stdout, done.stdout
    assert "assert -5 >= 0" in done.stdout, done.stdout
