"""``swe-memory completion``: the shell's completion script."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      swe-memory completion bash > ~/.local/share/bash-completion/completions/swe-memory
    """
    from click.shell_completion import get_completion_class

    from swe_memory.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "swe-memory", "_SWE_MEMORY_COMPLETE").source())
