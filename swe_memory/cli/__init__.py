"""The command line. Every command is a few lines over the library; what it prints with ``--json`` is documented in its ``--help``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from swe_memory.errors import SweMemoryError, UsageError

# Module and attribute of each command of the memory. The harness adds its own by entry point (group swe_memory.commands).
COMMANDS = {
    "learn": "swe_memory.cli.learn:learn",
    "recall": "swe_memory.cli.recall:recall",
    "items": "swe_memory.cli.items:items",
    "bank": "swe_memory.cli.bank:bank",
    "judge": "swe_memory.cli.judge:judge",
    "doctor": "swe_memory.cli.doctor:doctor",
    "completion": "swe_memory.cli.completion:completion",
}
ENTRY_POINTS = "swe_memory.commands"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for, so that ``--help`` stays quick."""

    def _added(self) -> dict[str, Any]:
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=ENTRY_POINTS)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        added = [name for name in ("run", "compare", "plan", "report", "demo") if name in self._added()]
        others = sorted(set(self._added()) - set(added) - set(COMMANDS))
        return [*COMMANDS, *added, *others]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name].partition(":")
            command = getattr(import_module(module), attribute)
        else:
            point = self._added().get(cmd_name)
            if point is None:
                return None
            command = point.load()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        # Settings files are read only when a command is about to run: --help and completion must work beside a broken file.
        if ctx.default_map is None and not ctx.resilient_parsing and "--help" not in args and "-h" not in args:
            from swe_memory.config import default_map, find_config, load_config, unknown_variables

            try:
                if (path := find_config()) is not None:
                    ctx.default_map = default_map(load_config(path), self, ctx, path)
            except UsageError:
                # The doctor is who one asks about a broken file; it finds and reports the same.
                if args[:1] != ["doctor"]:
                    raise
            for name in unknown_variables(self, ctx):
                click.echo(f"note: {name} is set, but no command has such a setting", err=True)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "SWE_MEMORY", "max_content_width": 110},
    epilog="Settings: flags, then environment (SWE_MEMORY_BANK, SWE_MEMORY_LEARN_EXTRACTOR, ...), then swe-memory.toml. Exit codes: 0 done, "
    "1 work failed, 2 wrong use, 130 interrupted.",
)
@click.version_option(package_name="swe-memory", prog_name="swe-memory")
def cli() -> None:
    """A memory for repository-fixing agents, and the instrument that says whether it helps.

    \b
    Try it:        swe-memory demo
    Learn:         swe-memory learn runs/mine --bank team.lance
    Recall:        swe-memory recall --bank team.lance --repo acme/web issue.md
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. A user's mistake is a message, never a traceback."""
    try:
        result = cli.main(args=args, prog_name="swe-memory", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except SweMemoryError as error:
        _complain(error.what, error.hint)
        return error.exit_code
    except click.UsageError as error:
        _complain(error.format_message(), _where_from(error))
        return 2
    except click.ClickException as error:
        _complain(error.format_message(), "")
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted; what was acknowledged is kept, and the same command goes on from there", "")
        return 130
    except BrokenPipeError:
        # The reader (head, less) went away: that is its right. Point stdout elsewhere so that the interpreter's own flush does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] in HARNESS_PACKAGES:
            _complain(f"this command needs the package {error.name.split('.')[0]}", "install it with: pip install 'swe-memory[harness]'")
            return UsageError.exit_code
        raise


HARNESS_PACKAGES = {"docker", "git", "minisweagent", "psutil", "pytest", "scipy", "statsmodels", "swebench", "datasets"}


def _where_from(error: click.UsageError) -> str:
    """Where a wrong value came from, if not from the command line, and where the help is."""
    hints = []
    context, param = error.ctx, getattr(error, "param", None)
    if context is not None and param is not None and param.name:
        if isinstance(error, click.MissingParameter):
            if param.name == "bank_uri":
                hints.append('or set SWE_MEMORY_BANK, or write bank = "..." into swe-memory.toml')
        elif (source := context.get_parameter_source(param.name)) is not None:
            origin = {"ENVIRONMENT": "the environment", "DEFAULT_MAP": "swe-memory.toml"}.get(source.name)
            if origin:
                hints.append(f"the value comes from {origin}")
    if context is not None:
        hints.append(f"see {context.command_path} --help")
    return "; ".join(hints)


def _complain(what: str, hint: str) -> None:
    click.echo(click.style("error: ", fg="red", bold=True) + what, err=True)
    if hint:
        click.echo(f"  {hint}", err=True)


def entry() -> None:
    """The console script."""
    sys.exit(main())
