"""A pipeline as a process of its own, killed while its streams go on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.kit.waiting import wait_for
from tests.spark import sessions


class Run:
    """``logstore pipeline run NAME``, with the session's settings of the tests."""

    def __init__(self, scratch: Path, name: str, **parameters: Any) -> None:
        self._said = scratch / "said.txt"
        self._checkpoint = Path(parameters["checkpoint"])
        words = [sys.executable, "-m", "logstore.cli", "pipeline", "run", name, "--master", "local[2]"]
        for key, value in sessions.settings(scratch / "spark").items():
            words += ["--spark", f"{key}={value}"]
        for key, value in parameters.items():
            words += ["--dir" if key == "path" else f"--{key.replace('_', '-')}", str(value)]
        self._words = words

    @property
    def said(self) -> str:
        """What all runs have written to standard error."""
        return self._said.read_text()

    def _start(self, *more: str) -> subprocess.Popen[str]:
        with self._said.open("a") as said:
            return subprocess.Popen(
                [*self._words, *more],
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=sessions.environment(),
                start_new_session=True,
                # Of a shell's job in the background, a child would inherit that it is ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )

    def to_the_end(self, timeout_s: float = 600) -> dict[str, Any]:
        """What the command reports."""
        process = self._start()
        try:
            out, _ = process.communicate(timeout=timeout_s)
        finally:
            _kill(process)
        assert process.returncode == 0, self.said[-4000:]
        found: dict[str, Any] = json.loads(out)
        return found

    def killed(self, rng: random.Random, steps: int, timeout_s: float = 400) -> bool:
        """Start it, and kill all its processes within some step of the next few; False if it had ended before."""
        after = self._progress() + rng.randint(1, steps)
        process = self._start()
        try:
            self.wait_for(lambda: self._progress() >= after or process.poll() is not None, timeout_s)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, 0.6))
            return process.poll() is None
        finally:
            _kill(process)

    def wait_for(self, holds: Callable[[], bool], timeout_s: float) -> None:
        """Wait until something holds; if it never does, what the command has said is told."""
        try:
            wait_for(holds, timeout_s)
        except AssertionError:
            raise AssertionError(self.said[-4000:]) from None

    @contextlib.contextmanager
    def going_on(self, *more: str) -> Iterator[Going]:
        """Start it with more options, such as ``--continuous``; what is left of it in the end is killed."""
        process = self._start(*more)
        try:
            yield Going(process, self)
        finally:
            _kill(process)

    def _progress(self) -> int:
        """Micro-batches begun and ended, in all stages together."""
        return sum(1 for name in ("offsets", "commits") for _ in self._checkpoint.glob(f"*/{name}/[0-9]*"))


class Going:
    """A pipeline that runs."""

    def __init__(self, process: subprocess.Popen[str], run: Run) -> None:
        self._process = process
        self._run = run

    def wait_for(self, holds: Callable[[], bool], timeout_s: float = 300) -> None:
        """Until something holds; it must not end before."""
        self._run.wait_for(lambda: holds() or self._process.poll() is not None, timeout_s)
        assert holds() or self._process.poll() is None, self._run.said[-4000:]

    def wait(self, timeout_s: float = 300) -> tuple[int, str]:
        """Until it ends by itself. Its status and what it printed."""
        out, _ = self._process.communicate(timeout=timeout_s)
        return self._process.returncode, out

    def end(self, number: signal.Signals, timeout_s: float = 120) -> tuple[int, str]:
        """Send it a signal, Ctrl-C to all its processes, as a terminal does. Its status and what it printed."""
        if number == signal.SIGINT:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)
        out, _ = self._process.communicate(timeout=timeout_s)
        return self._process.returncode, out


def _kill(process: subprocess.Popen[str]) -> None:
    """It, Java, and Spark's Python workers, which have a process group of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        for each in (psutil.Process(process.pid), *family):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def seed() -> int:
    """Printed by the test, to be given again."""
    return int(os.environ.get("LOGSTORE_SEED", random.randrange(2**32)))
