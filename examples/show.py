"""What a demo prints: a progress bar on a terminal, plain lines elsewhere, one table of its steps."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


class DemoError(Exception):
    """The demo cannot go on, or has found something wrong."""


@dataclass
class Step:
    """One line of the table."""

    name: str
    records: int
    size: int
    seconds: float = 0.0


class Show:
    """What the user sees: a progress bar on a terminal, plain lines elsewhere, one table."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False, soft_wrap=True)
        self.steps: list[Step] = []

    def say(self, text: str) -> None:
        self.console.print(text)

    @contextlib.contextmanager
    def step(self, name: str, records: int, size: int) -> Iterator[Step]:
        """Time what happens inside ``with``."""
        step = Step(name, records, size)
        self.steps.append(step)
        started = time.perf_counter()
        yield step
        step.seconds = time.perf_counter() - started

    @contextlib.contextmanager
    def progress(self, name: str, total: int) -> Iterator[Callable[[int], object]]:
        """A function to call with the number of records done."""
        if not self.console.is_terminal:
            yield lambda done: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(name, total=total)
            yield lambda done: bar.update(task, completed=done)

    def table(self) -> None:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, caption="MB: a million bytes of keys and values")
        table.add_column("step", no_wrap=True)
        for heading in ("records", "seconds", "records/s", "MB/s"):
            table.add_column(heading, justify="right", no_wrap=True)
        for step in self.steps:
            rates = ("", "")  # an open does not touch most of what it finds
            if step.size:
                rates = (f"{step.records / step.seconds:,.0f}", f"{step.size / step.seconds / 1e6:,.1f}")
            table.add_row(step.name, f"{step.records:,}", f"{step.seconds:.3f}", *rates)
        self.console.print(table)


def expect(what: str, found: object, wanted: object) -> None:
    """Raise unless a figure from the store is the one of the source."""
    if found != wanted:
        raise DemoError(f"{what}: found {found}, expected {wanted}")
