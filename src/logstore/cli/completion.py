"""``logstore completion``: the script that completes commands in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from logstore.cli import terminal

VARIABLE = "_LOGSTORE_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes logstore's commands in a SHELL.

    \b
    bash: logstore completion bash > ~/.local/share/bash-completion/completions/logstore
    zsh:  logstore completion zsh > "${fpath[1]}/_logstore"
    fish: logstore completion fish > ~/.config/fish/completions/logstore.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    terminal.write(found(ctx.find_root().command, {}, "logstore", VARIABLE).source())
