"""Writes the page of commands from the commands themselves.

    python docs/commands_page.py

tests/project/test_docs.py finds a page that is not what this gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from logstore.cli import output
from logstore.cli.main import cli

PAGE = Path(__file__).resolve().parent / "reference" / "commands.md"


def page() -> str:
    """Return the page: for each command its help and a table of its arguments and options."""
    lines = ["# Commands", "", *_paragraphs(cli.help), output.EXIT_STATUS, ""]
    for words, command in commands(cli, ()):
        lines += [f"{'#' * (1 + len(words))} logstore {' '.join(words)}", "", *_paragraphs(command.help)]
        lines += [*_table(command), ""] if _shown(command) else []
    return "\n".join(lines).rstrip("\n") + "\n"


def commands(group: click.Group, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below a group with its words, except the pipelines, which have pages of their own."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*above, name), command
        if isinstance(command, click.Group) and (*above, name) != ("pipeline", "run"):
            yield from commands(command, (*above, name))


def _paragraphs(text: str | None) -> list[str]:
    """Return the paragraphs of a help text; one marked with ``\\b`` keeps its lines."""
    found: list[str] = []
    for each in re.split(r"\n\s*\n", (text or "").strip()):
        rows = [row.strip() for row in each.split("\n")]
        if rows[0] == "\b":
            found += ["```text", *rows[1:], "```", ""]
        else:
            found += [_escaped(" ".join(rows)), ""]
    return found


def _shown(command: click.Command) -> list[click.Parameter]:
    return [each for each in command.params if not getattr(each, "hidden", False)]


def _table(command: click.Command) -> list[str]:
    lines = ["| argument or option | |", "|---|---|"]
    for each in _shown(command):
        lines.append(f"| {_name(each)} | {_escaped(getattr(each, 'help', None) or '')} |")
    return lines


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        name = (parameter.metavar or str(parameter.name).upper()).strip("[]")
        name = name if parameter.required else f"[{name}]"
        return f"`{name}{' ...' * (parameter.nargs == -1)}`"
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
        return f"`{names}`"
    kind = parameter.type
    choices = ", ".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else ""
    value = parameter.metavar or kind.name.upper().removesuffix(" RANGE")
    return f"`{names} {value}`" + (f" ({choices})" if choices else "")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
