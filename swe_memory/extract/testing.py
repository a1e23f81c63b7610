"""How a repository's tests are run, learned by watching: the command that worked, what failed before it, what it covers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..patches import is_test_path
from .commands import Part
from .prose import HEDGE, tidy
from .signals import Event, Signals, thought_of
from .validate import sentences, squeeze

_RAN = re.compile(
    r"\b[1-9]\d* passed\b|\bRan [1-9]\d* tests?\b|tests finished: [1-9]\d* passed|\b[1-9]\d* (?:tests?|specs?|examples?)\b", re.IGNORECASE
)
_FAULT = re.compile(
    r"^(?:.*: )?(?P<line>(?:No module named .*|.*command not found|.*can't open file .*|.*[Nn]o such file or directory.*|"
    r"file or directory not found.*|.*unrecognized arguments.*|"
    r"(?:[\w.]+\.)?(?:\w*Error|ImproperlyConfigured|AppRegistryNotReady|\w*Exception)\b.*))$",
    re.MULTILINE,
)
_ENVIRONMENT = re.compile(
    r"No module named|command not found|can't open file|no such table|[Nn]o such file|not found|ImproperlyConfigured|"
    r"AppRegistryNotReady|UnicodeEncodeError|"
    r"settings are not configured|Apps aren't loaded|could not be found|not installed|Permission denied|unrecognized arguments|"
    r"app_label|isn't in an application"
)
_GUESS = re.compile(
    rf"(?!\b(?:should|would|could)\b)(?:{HEDGE.pattern})|should (?:handle|have)|make sure|single block|again", re.IGNORECASE
)
_OWN = re.compile(r"reproduc|repro_|_repro|mybug", re.IGNORECASE)
_SOLUTION = re.compile(r"\b(?:need to|should|must|have to|can|will|use|using|set|setting|instead|by)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TestRun:
    """The command that ran existing tests, generalised (``command`` with its targets), and what kind of target it takes."""

    command: str
    runner: str
    targets: tuple[str, ...]
    step: int
    tests: int = 0
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Pitfall:
    """A check that failed because of how it was run, and what worked instead. ``solution`` is the agent's own sentence, "" where there is none."""

    attempted: str
    error: str
    worked: str
    solution: str
    step: int


def test_run(found: Signals) -> TestRun | None:
    """The last run of the repository's own tests that really ran some; None where none did."""
    best: TestRun | None = None
    for event in found.tests:
        output = "\n".join(a.output[-6000:] for a in found.trajectory.steps[event.step].actions)
        if not _RAN.search(output) and event.result != "passed":
            continue
        run = _generalise(event, found)
        if run is not None:
            tests, seconds = _size(output)
            best = run if "-k" in event.part.words else replace(run, tests=tests, seconds=seconds)
    return best


def targets_of(event: Event, found: Signals) -> tuple[str, ...]:
    """What a test run was asked to run, where it really ran some of it; () otherwise."""
    output = "\n".join(a.output[-6000:] for a in found.trajectory.steps[event.step].actions)
    run = _generalise(event, found) if _RAN.search(output) else None
    return run.targets if run is not None else ()


def all_skipped(event: Event, found: Signals) -> bool:
    """Whether a test run skipped every test that it collected: it ended well and checked nothing."""
    output = "\n".join(a.output[-6000:] for a in found.trajectory.steps[event.step].actions)
    ran, skipped = re.search(r"\bRan (\d+) tests?", output), re.search(r"skipped=(\d+)", output)
    if ran and skipped:
        return int(skipped[1]) >= int(ran[1])
    return bool(re.search(r"=+ .*\b\d+ skipped\b.* in ", output)) and not re.search(r"\b\d+ (?:passed|failed)\b", output)


def _size(output: str) -> tuple[int, float | None]:
    """How many tests a run had and how long it took, where its summary says; (0, None) where not."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    counts = re.findall(r"\bRan (\d+) tests?|(\d+) passed", plain)
    times = re.findall(r"\bin (\d+(?:\.\d+)?) ?s(?:econds)?\b", plain)
    return (int(counts[-1][0] or counts[-1][1]) if counts else 0), (float(times[-1]) if times else None)


def _generalise(event: Event, found: Signals) -> TestRun | None:
    words = list(event.part.words)
    runner: list[str] = []
    targets: list[str] = []
    takes_value = False
    for i, word in enumerate(words):
        if takes_value:
            takes_value = False
            continue
        if word.startswith("-"):
            # Which tests (-k), how loud (-v) and how early to stop (-x) are this run's choice; the rest belongs to the runner.
            if word in {"-k", "-p", "-n", "--tb", "--maxfail"}:
                takes_value = True
            elif word in {"-m", "-W", "-X"} and len(words) > i + 1 and runner and re.search(r"python|pypy", runner[0]):
                runner += [word, words[i + 1]]
                takes_value = True
            elif word.startswith("--") and not re.match(
                r"--(?:tb|verbos|maxfail|pdb|lf|ff|last|durations|color|setup-show|capture|parallel|failfast|no-header)", word
            ):
                runner.append(word)
            continue
        is_runner = (
            i == 0
            or (i == 1 and re.search(r"python|pypy|^(?:make|npm|yarn|cargo|go|mvn|gradle|dotnet|\./gradlew)$", words[0]))
            or word in {"test"}
        )
        if is_runner:
            runner.append(word)
        else:
            targets.append(word.split("::")[0])
    kept = tuple(t for t in dict.fromkeys(targets) if t not in found.scratch and "reproduc" not in t and "issue" not in t.lower())
    if targets and not kept:
        return None
    if runner and runner[0].startswith("/"):
        runner[0] = runner[0].rsplit("/", 1)[-1]
    prefix = f"cd {event.part.folder} && " if event.part.folder and not event.part.folder.startswith("/") else ""
    environment = "".join(f"{value} " for value in event.part.environment if re.match(r"^(?:PYTHON|DJANGO|LANG|LC_)\w*=[\w./:-]*$", value))
    name = prefix + environment + " ".join(runner)
    if any(len(word) > 60 or not re.fullmatch(r"[\w./:@=+-]+", word) for word in (*runner, *kept)):
        return None
    return TestRun(squeeze(f"{name} {' '.join(kept[:2])}"), name, kept, event.step)


def wrong_runners(found: Signals, run: TestRun | None) -> tuple[str, ...]:
    """Runners that were tried and are not there or do not work, in order: ("pytest", "python -m pytest")."""
    wrong: list[str] = []
    for event in found.events:
        if event.kind != "test" or event.result != "failed" or (run is not None and event.step >= run.step):
            continue
        output = "\n".join(a.output[-3000:] for a in found.trajectory.steps[event.step].actions)
        if re.search(r"No module named (?:'?pytest|'?nose|'?tox)|command not found|can't open file", output) and not _RAN.search(output):
            words = event.part.words
            name = " ".join(words[:3]) if len(words) > 2 and words[1] == "-m" else words[0]
            wrong.append(name)
    return tuple(dict.fromkeys(wrong))


def pitfalls(found: Signals) -> tuple[Pitfall, ...]:
    """Checks that failed because of how they were run and that ran later: the error, the agent's remedy, and the command that worked."""
    result: list[Pitfall] = []
    steps = found.trajectory.steps
    for event in found.checks:
        if event.result != "failed" or event.kind == "test":
            continue
        output = "\n".join(a.output[-4000:] for a in steps[event.step].actions)
        error = _last_fault(output)
        if not error or not _ENVIRONMENT.search(error) or any(name in error for name in found.scratch if name):
            continue
        later = next((e for e in found.checks if e.step > event.step and not _same_fault(found, e, error)), None)
        if later is None or later.step > event.step + 6:
            continue
        solution = _remedy(found, event.step, later.step)
        added = [v for v in later.part.environment if v not in event.part.environment and re.fullmatch(r"[A-Z_]+=[\w./:-]+", v)]
        edited = any(e.kind == "edit" and event.step < e.step <= later.step for e in found.events)
        if added and not edited:
            solution = f"Run it with `{' '.join(added)}`."
        if _OWN.search(error):
            continue  # a module that the agent made for itself was missing: nobody else will look for it
        if solution:
            result.append(Pitfall(_short(event.part), error, _short(later.part), solution, event.step))
    unique: dict[str, Pitfall] = {}
    for pitfall in result:
        unique.setdefault(re.sub(r"['\"].*?['\"]|\w*_\w+", "", pitfall.error), pitfall)
    return tuple(unique.values())


def _last_fault(output: str) -> str:
    lines = [m["line"].strip() for m in _FAULT.finditer(output)]
    return squeeze(lines[-1])[:120] if lines else ""


def _same_fault(found: Signals, event: Event, error: str) -> bool:
    output = "\n".join(a.output[-4000:] for a in found.trajectory.steps[event.step].actions)
    return event.result == "failed" and bool(_ENVIRONMENT.search(_last_fault(output))) and _last_fault(output)[:30] == error[:30]


def _short(part: Part) -> str:
    return squeeze(" ".join((*part.environment, *part.words)))[:80]


def _remedy(found: Signals, failed: int, worked: int) -> str:
    """The sentence, in the thoughts after the failure, that says what to do about it."""
    best = ""
    for step in found.trajectory.steps[failed + 1 : worked + 1]:
        for line in thought_of(step.thought).splitlines():
            for raw in sentences(line.strip()):
                text = tidy(raw)
                if not 30 <= len(text) <= 220 or "?" in text or text.count("`") % 2 or not _SOLUTION.search(text) or text.endswith(":."):
                    continue
                # No guess, and nothing about a file or package that the agent made for itself.
                own = any(p.split("/")[0].rsplit(".", 1)[0] in text for p in found.scratch if len(p) > 4) or _OWN.search(text)
                if _GUESS.search(raw) or own:
                    continue
                text = re.sub(
                    r"^(?:So )?(?:(?:I|We)(?:'ll| will| should(?: probably)?| need to| must| have to| can)|Need to|Should) "
                    r"(?:just |probably |first |also )?",
                    "",
                    text,
                )
                if re.search(
                    r"\b(?:I|my|we|let's|let me|maybe|again|now|file name|previous|mistake|didn't|forgot|or just|try to)\b",
                    text,
                    re.IGNORECASE,
                ):
                    continue
                if len(text) > len(best):
                    best = text[0].upper() + text[1:]
    return best


def covering_tests(found: Signals) -> tuple[str, ...]:
    """Test targets that were run successfully after an edit of the source: where the tests of the edited files are."""
    targets: list[str] = []
    for event in found.tests:
        if event.result != "passed" or found.first_edit is None or event.step < found.first_edit:
            continue
        run = _generalise(event, found)
        if run is not None:
            targets.extend(run.targets)
    return tuple(t for t in dict.fromkeys(targets) if not t.startswith("-") and (is_test_path(t) or "/" not in t))[:3]


def found_by(found: Signals) -> str:
    """The look or search that showed where the tests are, right before they were first run: a short command, "" where there was none."""
    first = next((e.step for e in found.tests if e.result == "passed"), None)
    if first is None:
        return ""
    for event in reversed([e for e in found.events if first - 4 <= e.step < first and e.kind in {"search", "list"}]):
        text = squeeze(event.part.text)
        if re.search(r"\btest", text) and "runtests" not in text and len(text) <= 70 and "`" not in text and "|" not in text:
            return text
    return ""
