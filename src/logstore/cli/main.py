"""Command `logstore`: its nouns, and the message and exit status of an error.

The module of a noun is imported on use, so that ``logstore --help`` and completion stay
quick. Every command ends in `Logstore.main`, for the entry point and for tests alike.
"""

from __future__ import annotations

import errno
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import click

from logstore.cli import output
from logstore.cli.advice import of_a_command
from logstore.errors import (
    ConfigError,
    DirectoryLockedError,
    LogstoreError,
    RetentionWarning,
    StorageError,
    TooManyFilesError,
)

#: noun -> module, command in it, and its line in the list of commands
COMMANDS = {
    "adopt": ("commands.dir_commands", "adopt", "Take over a directory that Kafka wrote."),
    "bench": ("commands.bench", "bench", "Measure the speed of this disk, or of a cluster."),
    "completion": ("completion", "completion", "Print the script that completes commands in a shell."),
    "config": ("commands.config", "config", "Show, explain, check and convert settings."),
    "consume": ("commands.consume", "consume", "Print the records of a topic."),
    "count": ("commands.excerpt", "count", "Count the records of a topic."),
    "doctor": ("commands.doctor", "doctor", "Diagnose a directory or a cluster."),
    "export": ("commands.transfer", "export_records", "Write a topic's records as JSON lines, CSV or Parquet."),
    "hand-back": ("commands.dir_commands", "hand_back", "Release a directory to Kafka."),
    "head": ("commands.excerpt", "head", "Print the oldest records of a topic."),
    "housekeep": ("commands.dir_commands", "housekeep", "Apply retention and compaction once."),
    "import": ("commands.transfer", "import_records", "Append records from JSON lines or another directory."),
    "offsets": ("commands.offsets", "offsets", "List, set and delete committed offsets; show lag."),
    "pipeline": ("commands.pipeline", "pipeline", "Run, list and describe the data pipelines for Spark."),
    "produce": ("commands.produce", "produce", "Append records from standard input."),
    "rebuild": ("commands.dir_commands", "rebuild", "Rebuild a lost list of topics from the directories."),
    "segment": ("commands.segments", "segment", "List, dump, verify and repair the files of partitions."),
    "serve": ("serve", "serve", "Serve the store to Kafka clients."),
    "snapshot": ("commands.dir_commands", "snapshot", "Copy the whole store."),
    "tail": ("commands.excerpt", "tail", "Print the newest records of a topic."),
    "topic": ("commands.topics", "topic", "Create, list, describe, alter, delete and trim topics."),
}


class Logstore(click.Group):
    """A group that imports a command on use and turns errors into exit statuses."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"logstore.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])

    def main(  # type: ignore[override]  # always ends the process, as click's does by default
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra.pop("standalone_mode", None)
        status = self._status_of(args, prog_name or "logstore", extra)
        try:
            # Without it, data written before an error could be lost at the interpreter's exit.
            output.flush()
        except output.ClosedPipeError:
            output.forget_output()
        sys.exit(status)

    def _status_of(self, args: Sequence[str] | None, prog_name: str, extra: dict[str, Any]) -> int:
        try:
            with warnings.catch_warnings():
                show = warnings.showwarning
                warnings.showwarning = partial(_show_warning, show)
                result = super().main(args, prog_name, standalone_mode=False, **extra)
            output.flush()
        except output.ClosedPipeError:
            return output.CLOSED_PIPE
        except (click.Abort, KeyboardInterrupt):
            return output.INTERRUPTED
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except LogstoreError as error:
            output.say(f"error: {of_a_command(str(error))}")
            return status_of(error)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                output.say(f"error: {TooManyFilesError.to('open a file', error, path=error.filename)}")
                return output.RETRY
            where = f": {error.filename}" if error.filename else ""
            output.say(f"error: {error.strerror or error}{where}")
            return output.FAILED
        return result if isinstance(result, int) else output.OK


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning for users like every other message, without the source line."""
    if issubclass(category, RetentionWarning):
        output.say(f"warning: {of_a_command(str(message))}")
    else:
        show(message, category, *where)


def status_of(error: LogstoreError) -> int:
    """Return the exit status of an error of logstore."""
    if isinstance(error, ConfigError):
        return output.USAGE
    # Kafka's retriable errors include damaged batches, which another replica could serve: here a retry is useless.
    passes = isinstance(error, DirectoryLockedError) or (error.retriable and isinstance(error, StorageError))
    return output.RETRY if passes else output.FAILED


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"logstore {version('logstore')}")
        except PackageNotFoundError:
            click.echo("logstore, from a source tree")
        ctx.exit()


@click.group(
    cls=Logstore,
    epilog=output.EXIT_STATUS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Print the version."
)
@click.option("-v", "--verbose", count=True, help="Log to standard error; twice for more.")
def cli(verbose: int) -> None:
    """Inspect, write, read and repair Kafka's log in a directory.

    Data is written to standard output, messages to standard error. Commands that only read also work
    while a process writes the directory; commands that write then fail and name its pid.
    """
    if verbose:
        import logging

        logging.basicConfig(
            stream=sys.stderr,
            level=logging.DEBUG if verbose > 1 else logging.INFO,
            format="%(levelname)s %(name)s %(message)s",
        )
