"""``logstore pipeline``: the pipelines included with the Spark data source."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import click

from logstore.cli import output
from logstore.cli.store_option import json_option
from logstore.errors import LogstoreError, SparkQueryError
from logstore.spark.pipelines import Parameter, Pipeline, get, names, parameters_of

#: Options of the session, not parameters of the pipeline.
_SESSION = ("master", "shuffle_partitions", "rocksdb", "spark_settings", "spark_log")


class _Pipelines(click.Group):
    """A command for each pipeline, with its parameters as options."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command_of(get(cmd_name)) if cmd_name in names() else None


@click.group()
def pipeline() -> None:
    """Run, list and describe the data pipelines for Spark."""


@pipeline.group(cls=_Pipelines)
def run() -> None:
    """Run the pipeline NAME, with its parameters as options.

    It processes the existing records and ends; with --continuous it runs until it is stopped. A run with
    the --checkpoint of an earlier one continues where that one ended, also if it was killed.
    """


@pipeline.command("list")
@json_option
def list_pipelines(as_json: bool) -> None:
    """List the pipelines, each with a summary.

    JSON: pipeline, summary.
    """
    rows = [{"pipeline": name, "summary": get(name).summary} for name in names()]
    output.print_rows(rows, as_json=as_json)


@pipeline.command()
@click.argument("directory", type=click.Path(file_okay=False))
def written(directory: str) -> None:
    """List the committed Parquet files in DIRECTORY, for readers that do not use Spark's own list.

    Files that a killed run left in the directory are not listed.
    """
    from logstore.spark.pipelines.output.written import files_of

    for path in files_of(directory):
        output.line(path)


@pipeline.command()
@click.argument("name", type=click.Choice(names()))
@json_option
def describe(name: str, as_json: bool) -> None:
    """Describe pipeline NAME: its effect, guarantees and parameters.

    Parameters to change when there is more data are marked with *.

    JSON, one object for each parameter: parameter, default, scale, help.
    """
    found = get(name)
    if not as_json:
        output.line(found.description + "\n")
    rows = [
        {
            "parameter": ("" if as_json or not each.scale else "*") + _option_of(each),
            "default": "required" if each.required else _shown(each.default),
            **({"scale": each.scale} if as_json else {}),
            "help": each.help,
        }
        for each in parameters_of(found.parameters)
    ]
    output.print_rows(rows, as_json=as_json)


def _option_of(each: Parameter) -> str:
    return "dir" if each.name == "path" else each.name.replace("_", "-")


def _shown(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default)


def _command_of(found: Pipeline[Any]) -> click.Command:
    options: list[click.Parameter] = [_click_option(each) for each in parameters_of(found.parameters)]
    options += _session_options()

    def invoke(**given: Any) -> None:
        _run(found, given)

    return click.Command(
        found.name, params=options, callback=invoke, help=found.description, short_help=found.summary
    )


def _click_option(each: Parameter) -> click.Option:
    shown = each.default not in ("", (), 0, False)
    words: dict[str, Any] = {"help": each.help, "required": each.required, "show_default": shown}
    if not each.required:
        words["default"] = each.default
    if each.name == "path":
        words |= {"envvar": "LOGSTORE_DIR", "show_envvar": True, "metavar": "DIR"}
        return click.Option(["-d", "--dir", "path"], **words)
    name = "--" + each.name.replace("_", "-")
    if each.name == "continuous":
        return click.Option(["--continuous/--once", "continuous"], **words | {"show_default": False})
    if each.type is bool:
        return click.Option([f"{name}/--no-{name[2:]}"], **words)
    if each.type == tuple[str, ...]:
        words["default"] = None if each.required else ",".join(each.default)
        return click.Option([name], callback=_listed, metavar="A,B,...", **words)
    return click.Option([name], type=each.type, **words)


def _listed(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (value or "").split(",") if word.strip())


def _session_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--master"], help="Where Spark runs, such as local[2] or spark://host:7077; default: as configured."
        ),
        click.Option(
            ["--shuffle-partitions"], type=int, default=0, help="Tasks after a shuffle; 0: Spark's default."
        ),
        click.Option(["--rocksdb"], is_flag=True, help="Keep the state of streams on disk instead of in memory."),
        click.Option(
            ["--spark", "spark_settings"],
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be repeated.",
        ),
        click.Option(
            ["--spark-log"],
            metavar="FILE",
            help="File for Spark's own log, or - for the terminal; default: a new file, kept if Spark fails.",
        ),
    ]


def _run(found: Pipeline[Any], given: dict[str, Any]) -> None:
    from logstore.cli.store_option import parse_settings

    master, shuffle_partitions, rocksdb, words, log = (given.pop(name) for name in _SESSION)
    settings = {key: str(value) for key, value in parse_settings(words).items()}
    if given.get("bootstrap") and given.get("path"):
        # A directory from the environment would conflict with --bootstrap on the command line.
        context = click.get_current_context()
        if context.get_parameter_source("path") is click.core.ParameterSource.ENVIRONMENT:
            given["path"] = ""
    parameters = found.parameters(**given)
    from logstore.spark.pipelines.reasons import short_reasons
    from logstore.spark.pipelines.running.session import end, session, stoppable

    with _spark_log(log) as speaking:
        with short_reasons(), speaking:
            spark = session(
                f"logstore {found.name}",
                master=master,
                shuffle_partitions=shuffle_partitions,
                rocksdb=rocksdb,
                settings=settings,
            )
        try:
            with short_reasons(), stoppable(spark, continuous=parameters.continuous):
                report = found.run(spark, parameters)
        finally:
            end(spark)
    output.print_json({"pipeline": report.pipeline, **report.counts})


@contextlib.contextmanager
def _spark_log(wanted: str | None) -> Iterator[contextlib.AbstractContextManager[None]]:
    """Yield a context in which Spark is started, so that Spark's own log is written to a file.

    ``wanted`` is the file, or "-" for the terminal. For None it is a new file, which is deleted at the end unless
    Spark has failed.

    Raises:
        SparkQueryError: Spark has failed; the message is the cause, then the name of the log.
    """
    if wanted == "-":
        yield contextlib.nullcontext()
        return
    from logstore.spark.pipelines.running.session import stderr_to

    if wanted is None:
        file, log = tempfile.mkstemp(prefix="logstore-spark-", suffix=".log")
        os.close(file)
    else:
        log = wanted
    # PySpark would also log the errors that it raises.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    is_needed = True
    try:
        yield stderr_to(log)
        is_needed = False
    except SparkQueryError as error:
        reason = _why_not_started(log) if "JAVA_GATEWAY_EXITED" in str(error) else ""
        raise SparkQueryError(f"{reason or error} [Spark's log: {log}]") from error
    except (LogstoreError, KeyboardInterrupt):
        is_needed = False
        raise
    finally:
        if wanted is None and not is_needed:
            os.unlink(log)


def _why_not_started(log: str) -> str:
    """Return why Spark did not start, by Java's last message in the log; "" if there is none."""
    with open(log, errors="replace") as file:
        said = re.findall(r"^(?:Exception in thread \S+ |Error: |Caused by: )(.+)$", file.read(), re.MULTILINE)
    return f"Spark did not start: {said[-1]}" if said else ""
