"""The command that tests one hypothesis: make each of its edits in turn, run the reproduction, and where that passes the tests."""

from __future__ import annotations

from collections.abc import Sequence

from harness.agents.repair_localise import SCRIPT
from harness.agents.repair_source import Edit

PROGRAM = """\
import os, resource, signal, subprocess, sys{imports}
PATH = {path!r}
TESTS = {tests!r}
WAYS = [  # first line, number of lines, new lines
{ways}
]
def reproduction_passes():
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    signal.alarm(5)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    sys.path[0] = os.getcwd()
    code = 1
    try:
        exec(compile(open("SCRIPT", encoding="utf-8").read(), "SCRIPT", "exec"), {{"__name__": "__main__"}})
        code = 0
    except SystemExit as stop:
        code = 0 if stop.code in (None, 0) else 1
    except BaseException:
        pass
    os._exit(code)
with open(PATH, encoding="utf-8", newline="") as file:
    lines = file.read().split("\\n")
for number, (first, count, new) in enumerate(WAYS, 1):
    with open(PATH, "w", encoding="utf-8", newline="") as file:
        file.write("\\n".join(lines[: first - 1] + new + lines[first - 1 + count :]))
    if not reproduction_passes():
        print(f"way {{number}}: the reproduction still fails", flush=True)
    elif subprocess.run(["bash", "-c", TESTS]).returncode:
        print(f"way {{number}}: the reproduction passes, but tests fail", flush=True)
    else:
        print(f"way {{number}}: works")
        sys.exit(0)
with open(PATH, "w", encoding="utf-8", newline="") as file:
    file.write("\\n".join(lines))
sys.exit(1)
""".replace("SCRIPT", SCRIPT)


def try_command(ways: Sequence[Edit], prefix: str, tests: str, imports: Sequence[str] = ()) -> str:
    """The bash command for edits of one file. It prints ``way N: works`` and leaves that edit in place with exit code 0, or undoes all and ends with 1.

    ``prefix`` sets variables for Python, ``tests`` is a bash command that must succeed, ``imports`` are modules of the standard library that the
    reproduction needs anyway (imported once instead of for each way). The reproduction runs in a fork, with a limit of 5 s and 1 GiB, from
    sources (``-B``: two edits within a second and of the same length would otherwise be hidden by a stale bytecode file).
    """
    listed = "\n".join(f"    ({way.first}, {len(way.old)}, {list(way.new)!r}),  # {way.remedy}" for way in ways)
    program = PROGRAM.format(
        path=ways[0].path, tests=f"set -o pipefail; {tests}", ways=listed, imports="".join(f", {name}" for name in imports)
    )
    return f"{prefix}python -B - <<'HYPOTHESIS'\n{program}HYPOTHESIS"
