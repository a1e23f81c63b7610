"""``swe-memory doctor``: what is installed, what is in force, what is missing, and what that means."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from contextlib import closing
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from swe_memory.cli import options

_GIB = 1 << 30
_LITTLE_DISK = 20 * _GIB


@click.command()
@click.option("--bank", "bank_uri", envvar="SWE_MEMORY_BANK", default=None, metavar="PATH|URI", help="Check this bank too.")
@options.json_option
def doctor(bank_uri: str | None, as_json: bool) -> None:
    """Say what works on this machine and what does not, with what to do. Asks nobody and changes nothing.

    Exit code 1 where something that every command needs is broken.

    \b
    Example: swe-memory doctor --bank team.lance
    JSON: {ok, checks: [{name, state: ok|missing|broken, detail, hint}]}
    """
    checks = [_python(), *_packages(), _embedder(), _git(), _docker(), _key(), _settings(), *([_bank(bank_uri)] if bank_uri else [])]
    ok = not any(check["state"] == "broken" for check in checks)
    if as_json:
        options.print_json({"ok": ok, "checks": checks})
    else:
        for check in checks:
            colour = {"ok": "green", "missing": "yellow", "broken": "red"}[check["state"]]
            click.echo(f"{click.style(check['state'].rjust(7), fg=colour)}  {check['name']}: {check['detail']}")
            if check["hint"]:
                click.echo(f"{'':>7}    {check['hint']}")
        click.echo("everything that learn, recall and the demo need is here" if ok else "something is broken (above)")
    if not ok:
        raise click.exceptions.Exit(1)


def _check(name: str, state: str, detail: str, hint: str = "") -> dict[str, str]:
    return {"name": name, "state": state, "detail": detail, "hint": hint}


def _python() -> dict[str, str]:
    return _check(
        "python",
        "ok" if sys.version_info >= (3, 11) else "broken",
        f"{platform.python_version()} on {platform.system()} {platform.machine()}",
    )


def _packages() -> list[dict[str, str]]:
    core = ["lancedb", "anthropic", "click", "pydantic"]
    harness = ["swebench", "mini-swe-agent", "docker", "GitPython", "statsmodels"]
    found: dict[str, str] = {}
    for name in core + harness:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    lines = []
    absent = [name for name in core if name not in found]
    detail = ", ".join(f"{name} {found[name]}" for name in core if name in found)
    lines.append(
        _check(
            "memory",
            "broken" if absent else "ok",
            detail or "nothing installed",
            f"missing: {', '.join(absent)}; pip install swe-memory" if absent else "",
        )
    )
    absent = [name for name in harness if name not in found]
    detail = ", ".join(f"{name} {found[name]}" for name in harness if name in found)
    lines.append(
        _check(
            "harness",
            "missing" if absent else "ok",
            detail or "not installed",
            f"missing: {', '.join(absent)}; run, compare and demo need: pip install 'swe-memory[harness]'" if absent else "",
        )
    )
    return lines


def _embedder() -> dict[str, str]:
    from swe_memory.embed import default_embedder, embedder_problem

    model = default_embedder()
    if model is None:
        return _check(
            "embedder", "missing", embedder_problem(), "recall works on full text and paths alone; afterwards: swe-memory bank reembed"
        )
    return _check("embedder", "ok", f"{model.name}, {model.dimension} dimensions, weights {model.digest[:12]}")


def _git() -> dict[str, str]:
    path = shutil.which("git")
    return _check("git", "ok", path) if path else _check("git", "missing", "not on PATH", "run and demo need git")


_ENGINE_FOR = "only runs on issues that come as images need it, the bundled bench does not"


def _docker() -> dict[str, str]:
    """The engine, in the words of the harness where that is installed; the memory itself never imports it."""
    try:
        engine = import_module("harness.environments.engine")
        import_module("docker")
    except ImportError:
        return _check("docker", "missing", "the Python package is not installed", f"{_ENGINE_FOR}: pip install 'swe-memory[harness]'")
    from swe_memory.errors import InfraError

    try:
        with closing(engine.connect(request_seconds=5)) as client:
            found = engine.describe(client)
    except InfraError as error:
        return _check("docker", "missing", error.what, f"{error.hint} {_ENGINE_FOR[0].upper()}{_ENGINE_FOR[1:]}.")
    said = [f"{found.name} {found.version}, {found.architecture}" + (", rootless" if found.rootless else "")]
    said += [f"{found.cpus} processors, {found.memory / _GIB:.1f} GiB of memory"]
    hints = []
    if (free := _free(found.root, found.host)) is not None:
        said.append(f"{free / _GIB:.0f} GiB free for images")
        if free < _LITTLE_DISK:
            hints.append("that is little (swe-memory images list --dataset ... says what issues need)")
    if lacking := [name for name in ("memory", "cpu", "pids") if name not in found.limits]:
        said.append(f"cannot limit {', '.join(lacking)}")
        hints.append(
            "containers run without these limits: one command can use up the machine (rootless engines need cgroup v2 and delegation)"
        )
    if found.architecture not in ("x86_64", "amd64", ""):
        hints.append("the official images are for x86_64; here they need emulation, which was not tried")
    return _check("docker", "ok", "; ".join(said), "; ".join(hints))


def _free(root: str, host: str) -> int | None:
    """Bytes free where the engine keeps its images; None where that is not this machine's disk."""
    return shutil.disk_usage(root).free if _is_here(host) and Path(root).is_dir() else None


def _is_here(host: str) -> bool:
    """Whether an engine is reached by a socket of this machine, as the SDK has its address."""
    return host.startswith("http+docker://localhost")


def _key() -> dict[str, str]:
    if os.environ.get("ANTHROPIC_API_KEY"):
        where = os.environ.get("ANTHROPIC_BASE_URL")
        return _check("anthropic key", "ok", "ANTHROPIC_API_KEY is set (not tried)" + (f", base URL {where}" if where else ""))
    needs = "--agent mini on a Claude model, --extractor llm, --verdict llm and --judge llm; --arm gold, --agent repair and rules need none"
    return _check("anthropic key", "missing", "ANTHROPIC_API_KEY is not set", f"needed by {needs}")


def _settings() -> dict[str, str]:
    from swe_memory.cli import cli
    from swe_memory.config import default_map, find_config, load_config
    from swe_memory.errors import UsageError

    try:
        path = find_config()
        if path is None:
            detail = "no swe-memory.toml here"
        else:
            config = load_config(path)
            default_map(config, cli, click.Context(cli), path)
            detail = f"{path}: {', '.join(config) or 'empty'}"
    except UsageError as error:
        return _check("settings", "broken", error.what, error.hint)
    in_force = sorted(name for name in os.environ if name.startswith("SWE_MEMORY_"))
    return _check("settings", "ok", detail + (f"; environment: {', '.join(in_force)}" if in_force else ""))


def _bank(uri: str) -> dict[str, str]:
    from swe_memory.errors import SweMemoryError

    try:
        with options.open_bank(uri, read_only=True, any_embedder=True) as bank:
            report = bank.check()
            if report.ok:
                return _check("bank", "ok", f"{uri} at version {bank.version}")
            return _check("bank", "broken", f"{uri}: {'; '.join(report.problems[:3])}", "see swe-memory bank check")
    except SweMemoryError as error:
        return _check("bank", "broken", error.what, error.hint)
