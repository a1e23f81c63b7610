"""Where to look: the issue's own reproduction, and which lines it runs that the passing tests do not.

Spectrum-based fault localisation with Ochiai's coefficient (Abreu, Zoeteweij, van Gemund, "On the accuracy of spectrum-based fault localization",
2007): the reproduction is the one failing run, every passing test of the repository a passing one.
"""

from __future__ import annotations

import ast
import doctest
import re
from dataclasses import dataclass, field
from math import sqrt

from harness.agents.repair_source import Types
from harness.parsing import parse

SCRIPT = "reproduce_issue.py"

SPECTRUM = """\
import contextlib, io, os, sys
ROOT, OUT = os.getcwd() + os.sep, sys.stdout
sys.path.insert(0, os.getcwd())
def short(code):
    name = code.co_filename
    if not name.startswith(ROOT) or "site-packages" in name or name.endswith("SCRIPT") or not code.co_flags & 1:  # 1: a function's code
        return None
    parts = name[len(ROOT):].split(os.sep)
    return None if any(part.startswith(("test", "conftest")) for part in parts) else name[len(ROOT):]
def recorder(lines, types):
    def note(key, frame, names):
        for name in names:
            types.setdefault(key + (name,), set()).add(type(frame.f_locals[name]).__name__)
        for name, value in list(getattr(frame.f_locals.get("self"), "__dict__", {}).items())[:20]:
            types.setdefault(key + ("self." + name,), set()).add(type(value).__name__)
    def start(frame, event, arg):
        path = short(frame.f_code)
        if path is None:
            return None
        key = (path, frame.f_code.co_qualname.split(".<locals>")[0].split(".<")[0])
        note(key, frame, list(frame.f_locals))
        def step(frame, event, arg):
            lines.setdefault(key + (frame.f_lineno,), 0)
            if event == "return":
                note(key, frame, list(frame.f_locals))
                types.setdefault(key + ("return",), set()).add(type(arg).__name__)
            return step
        return step
    return start
failing, fail_types, passing, pass_types = {}, {}, {}, {}
tests, broken = 0, []
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    try:
        code = compile(open("SCRIPT", encoding="utf-8").read(), ROOT + "SCRIPT", "exec")
        sys.settrace(recorder(failing, fail_types))
        exec(code, {"__name__": "__main__"})
    except BaseException:
        pass
    finally:
        sys.settrace(None)
    class Spectrum:
        def pytest_runtest_call(self, item):
            self.lines = {}
            sys.settrace(recorder(self.lines, pass_types))
        def pytest_collectreport(self, report):
            if report.failed:
                broken.append(report.nodeid)
        def pytest_runtest_makereport(self, item, call):
            global tests
            if call.excinfo is not None and call.excinfo.typename not in ("Skipped", "XFailed"):
                broken.append(item.nodeid)
            if call.when == "call":
                sys.settrace(None)
                if call.excinfo is None:
                    tests += 1
                    for line in self.lines:
                        passing[line] = passing.get(line, 0) + 1
    try:
        import pytest
        pytest.main(["-q", "-p", "no:cacheprovider"], plugins=[Spectrum()])
    except ImportError:
        pass
print("passing tests:", tests, file=OUT)
for name in dict.fromkeys(broken):
    print("failing test:", name, file=OUT)
for key in sorted({line[:2] for line in failing}):
    counts = " ".join(f"{line[2]}:{passing.get(line, 0)}" for line in sorted(failing) if line[:2] == key)
    print(*key, "|", counts, file=OUT)
    for label, table in (("failing", fail_types), ("passing", pass_types)):
        print(" ", label + ":", " ".join(f"{k[2]}={','.join(sorted(v))}" for k, v in sorted(table.items()) if k[:2] == key), file=OUT)
""".replace("SCRIPT", SCRIPT)
"""A program for the environment: prints, for each function that the reproduction ran, its lines with the number of passing tests that ran them, and
the types seen."""


@dataclass(frozen=True, slots=True)
class Place:
    """One function that the reproduction ran. ``suspicion`` maps its executed lines to Ochiai's coefficient in (0, 1]."""

    path: str
    function: str
    suspicion: dict[int, float]
    types: Types = field(default_factory=Types)


def read_spectrum(output: str) -> list[Place]:
    """What :data:`SPECTRUM` printed, as places in order of path and function. Lines that say something else are passed over."""
    places: list[Place] = []
    for line in output.splitlines():
        if match := re.fullmatch(r"(\S+\.py) (\S+) \| ([\d: ]+)", line):
            counts = (pair.split(":") for pair in match[3].split())
            places.append(Place(match[1], match[2], {int(a): 1 / sqrt(1 + int(b)) for a, b in counts}))
        elif places and (match := re.fullmatch(r"  (failing|passing): ?(.*)", line)):
            seen = {name: tuple(kinds.split(",")) for name, _, kinds in (part.partition("=") for part in match[2].split()) if kinds}
            old = places[-1]
            types = Types(seen, old.types.passing) if match[1] == "failing" else Types(old.types.failing, seen)
            places[-1] = Place(old.path, old.function, old.suspicion, types)
    return places


def spread(place: Place, function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[tuple[str, int], float]:
    """(path, line) -> suspicion for the lines of a function that an edit could matter on.

    All lines of a statement (of a compound one: its head) share the highest value among them. A statement that the reproduction never ran gets none: no
    edit of it can change how the reproduction ends. The lines of the signature get the function's highest value.
    """
    found: dict[tuple[str, int], float] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.stmt | ast.ExceptHandler) or node is function:
            continue
        body = getattr(node, "body", None)
        last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or node.lineno
        span = range(node.lineno, max(last, node.lineno) + 1)
        value = max((place.suspicion.get(line, 0.0) for line in span), default=0.0)
        for line in span if value else ():
            found[place.path, line] = max(value, found.get((place.path, line), 0.0))
    top = max(place.suspicion.values(), default=0.0)
    found |= {(place.path, line): top for line in range(function.lineno, max(function.body[0].lineno, function.lineno + 1))}
    return found


def reproduction(text: str) -> str:
    """A program from the issue's text that ends with an error while the fault is there; "" where the issue has none.

    Taken: the first fenced Python block that has an assertion, or calls something; an interactive session whose wanted value the text states
    ("expected: ..."), turned into an assertion. ``print(x)  # expected 3`` becomes an assertion too.
    """
    blocks = re.findall(r"```(?:python|py|pycon)?[ \t]*\n(.*?)```", text, re.DOTALL)
    if ">>>" in text:
        blocks += [text]
    programs = [program for block in blocks if (program := _program(block, text))]
    checked = [p for p in programs if _asserts(p)]
    return (checked or programs or [""])[0]


def _asserts(program: str) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(parse(program)))


def _program(block: str, text: str) -> str:
    if ">>>" in block:
        return _session(block, text)
    try:
        tree = parse(block)
    except (SyntaxError, ValueError):
        return ""
    if not any(isinstance(node, ast.Call | ast.Assert) for node in ast.walk(tree)):
        return ""
    lines = block.rstrip("\n").split("\n")
    for node in tree.body:
        call = node.value if isinstance(node, ast.Expr) else None
        wanted = re.search(
            r"#.*?(?:expected|should be|want(?:ed)?|expect)\b:?\s*(.+)$", lines[(node.end_lineno or node.lineno) - 1], re.IGNORECASE
        )
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print" and len(call.args) == 1 and wanted:
            value = _literal(wanted[1])
            if value:
                lines[node.lineno - 1] = f"assert {ast.unparse(call.args[0])} == {value}"
                for extra in range(node.lineno, node.end_lineno or node.lineno):
                    lines[extra] = ""
    defined = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test") and not n.args.args]
    runs = any(isinstance(n, ast.Expr | ast.Assert | ast.For | ast.With | ast.If | ast.Try) for n in tree.body)
    return "\n".join([*lines, *([] if runs else [f"{name}()" for name in defined])]) + "\n"


def _session(block: str, text: str) -> str:
    try:
        examples = doctest.DocTestParser().get_examples(block.replace("\r", ""))
    except ValueError:
        return ""
    wanted = re.findall(r"(?:expected|should (?:be|give|return|print)|want(?:ed)?)\b[^\n]*?:?\s*`?([^\n`]+)`?", text, re.IGNORECASE)
    value = next((v for v in map(_literal, wanted) if v), "")
    lines = []
    for position, example in enumerate(examples):
        source = example.source.rstrip("\n")
        last = position == len(examples) - 1
        try:
            expression = isinstance(parse(source).body[-1], ast.Expr)
        except (SyntaxError, IndexError):
            return ""
        if last and expression and value:
            lines.append(f"assert ({source}) == {value}")
        else:
            lines.append(source)
    return "\n".join(lines) + "\n" if lines else ""


def _literal(text: str) -> str:
    """The longest beginning of ``text`` that is a Python literal, "" for none."""
    text = text.strip().strip("`").strip()
    for end in range(len(text), 0, -1):
        try:
            ast.literal_eval(text[:end].strip())
        except (ValueError, SyntaxError, MemoryError, TypeError):
            continue
        return text[:end].strip()
    return ""


def last_error(output: str) -> str:
    """The type of the error that a traceback ends with, "" for none (an AssertionError says nothing about the kind of fault)."""
    found = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception|Interrupt|Iteration|Exit))\b", output, re.MULTILINE)
    return found[-1].rsplit(".", 1)[-1] if found and found[-1] != "AssertionError" else ""


def frames(output: str) -> set[tuple[str, int]]:
    """(file, line) of every frame of the tracebacks in ``output``, as they are written there."""
    return {(path, int(line)) for path, line in re.findall(r'File "([^"]+)", line (\d+)', output)}


def raised(suspicion: dict[tuple[str, int], float], output: str) -> dict[tuple[str, int], float]:
    """``suspicion`` with the lines that a traceback passes through doubled: a stack trace points at the fault more often than not to its neighbourhood
    (Wong et al., "Boosting bug-report-oriented fault localization with segmentation and stack-trace analysis", ICSME 2014)."""
    seen = frames(output)
    return {
        (p, n): value * (2 if any(line == n and name.endswith(f"/{p}") for name, line in seen) else 1)
        for (p, n), value in suspicion.items()
    }
