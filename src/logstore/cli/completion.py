"""``logstore completion``: the script that completes commands in a shell, and completions of names in a store.

Names of topics, groups and partitions are read from the store that the command line names. A completion prints no
message: if the store cannot be read, it proposes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import get_completion_class

from logstore.cli import output
from logstore.cli.store_option import StoreOptions
from logstore.errors import LogstoreError
from logstore.store import Store

VARIABLE = "_LOGSTORE_COMPLETE"

#: Function that click calls for the completions of an incomplete word.
Completer = Callable[[click.Context, click.Parameter, str], list[str]]


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes logstore's commands, topics, groups and settings in a SHELL.

    \b
    bash: logstore completion bash > ~/.local/share/bash-completion/completions/logstore
    zsh:  logstore completion zsh > "${fpath[1]}/_logstore"
    fish: logstore completion fish > ~/.config/fish/completions/logstore.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    output.write(found(ctx.find_root().command, {}, "logstore", VARIABLE).source())


# --- names in a store --------------------------------------------------------------------------


def _of_the_store(words: Callable[[Store], Iterable[str]]) -> Completer:
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        file = ctx.params.get("config_file")
        options = StoreOptions(ctx.params.get("directory"), file if isinstance(file, str) else None, {})
        try:
            with options.open(read_only=True) as store:
                return [word for word in words(store) if word.startswith(incomplete)]
        except (LogstoreError, OSError, click.ClickException):
            return []

    return complete


topics = _of_the_store(lambda store: store.topics())
groups = _of_the_store(lambda store: store.offsets.groups())
partitions = _of_the_store(
    lambda store: [f"{name}:{number}" for name in store.topics() for number in range(len(store[name]))]
)
