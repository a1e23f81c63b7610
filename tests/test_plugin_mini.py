"""Memory for somebody's own mini-SWE-agent script: by one changed line, and never to its harm."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_anthropic import Error, FakeAnthropic, isolate
from scripted_model import GIVE_UP, ScriptedModel, fix
from small_bench import FILES, git

from harness.agents.mini_config import load_mini
from swe_memory import Issue, MemoryBank, Verdict
from swe_memory.errors import InfraError, UsageError
from swe_memory.plugins import mini_swe_agent
from swe_memory.plugins.mini_swe_agent import MemoryAgent
from swe_memory.records import Attempt, Extraction, ItemDraft, Trajectory

load_mini()

from minisweagent.agents.default import DefaultAgent  # noqa: E402
from minisweagent.environments.local import LocalEnvironment  # noqa: E402

from harness.agents.claude_model import ClaudeModel  # noqa: E402

EDIT = fix("sed -i 's/points > limit/points >= limit/' shop/marks.py", "shop/marks.py")
LEAVE = [EDIT[0], GIVE_UP]
"""Edits and submits no patch, as mini-SWE-agent's own default template has it."""

TEMPLATES = {"system_template": "You fix issues.\n", "instance_template": "Please fix: {{ task }}"}
FIRST = "The limit itself does not pass in grade\n\ngrade(5, 5) of shop.marks should be 'pass'."
SECOND = "Exactly the limit does not pass any more in grade\n\ngrade(7, 7) of shop.marks gives 'fail'."


class Noting:
    """An extractor that learns one thing of everything."""

    name = "noting@1"

    def __init__(self, content: str = "Comparisons with a limit are inclusive in grade.") -> None:
        self.content = content
        self.seen: list[Attempt] = []

    def extract(self, attempt: Attempt) -> Extraction:
        self.seen.append(attempt)
        draft = ItemDraft("Limits are inclusive", "What a limit means here.", self.content, "strategy", "success", "repository")
        return Extraction((draft,) if attempt.verdict.outcome != "unknown" else ())


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Start")
    return folder


Make = Callable[..., MemoryAgent]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    with FakeAnthropic(ScriptedModel({"": LEAVE})) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.key)
        yield server


@pytest.fixture
def wrapped(shop: Path, tmp_path: Path, api: FakeAnthropic) -> Make:
    def make(*, templates: dict[str, Any] = TEMPLATES, cwd: Path = shop, **memory: Any) -> MemoryAgent:
        agent = DefaultAgent(ClaudeModel(model_name="claude-haiku-5-5"), LocalEnvironment(cwd=str(cwd)), **templates)
        settings = {"bank": tmp_path / "memory.lance", "repo": "acme/shop", "extractor": Noting(), "verdict": lambda *_: True}
        return MemoryAgent(agent, **{**settings, **memory})

    return make


def test_what_one_run_teaches_the_next_is_given(wrapped: Make, api: FakeAnthropic) -> None:
    first = wrapped()
    assert first.run(FIRST)["exit_status"] == "Submitted"
    assert first.recall is not None and first.recall.item is None
    assert first.learned is not None and first.learned.status == "learned"
    assert api.requests[0].system == "You fix issues.", "without memory the prompt is as it was"
    second = wrapped()
    second.run(SECOND)
    assert api.requests[-1].system.startswith("You fix issues.\n\n## Notes from past attempts")
    assert "Comparisons with a limit are inclusive" in api.requests[-1].system
    assert second.learned is not None
    assert first.problems == second.problems == []


def test_an_issues_own_memory_is_not_given(wrapped: Make, api: FakeAnthropic) -> None:
    wrapped().run(FIRST)
    again = wrapped()
    again.run(FIRST)
    assert again.recall is not None and again.recall.item is None


def test_a_hostile_memory_is_never_taken_for_a_template(wrapped: Make, api: FakeAnthropic) -> None:
    content = "Write {{ 7 * 7 }} and {% raw %} before {{ undefined }} in grade."
    wrapped(extractor=Noting(content)).run(FIRST)
    agent = wrapped()
    agent.run(SECOND)
    assert content in api.requests[-1].system
    assert agent.problems == []


def test_a_template_may_say_itself_where_memory_stands(wrapped: Make, api: FakeAnthropic) -> None:
    wrapped().run(FIRST)
    wrapped(templates={**TEMPLATES, "system_template": "<notes>{{ swe_memory }}</notes> You fix issues."}).run(SECOND)
    assert api.requests[-1].system.startswith("<notes>## Notes from past attempts")
    assert api.requests[-1].system.count("Comparisons with a limit") == 1


def test_an_agent_can_run_twice(wrapped: Make, api: FakeAnthropic) -> None:
    agent = wrapped()
    agent.run(FIRST)
    agent.run(SECOND)
    assert api.requests[-1].system.count("Comparisons with a limit") == 1


def test_everything_else_is_the_agents_own(wrapped: Make) -> None:
    agent = wrapped()
    agent.run(FIRST)
    assert (agent.n_calls, len(agent.messages), type(agent.env).__name__) == (2, 6, "LocalEnvironment")
    assert agent.cost > 0
    assert agent.serialize()["info"]["exit_status"] == "Submitted"
    with pytest.raises(AttributeError):
        agent.no_such_thing  # noqa: B018


def test_the_issue_may_be_given(wrapped: Make, tmp_path: Path) -> None:
    issue = Issue("web-417", "acme/web", "Another text than the task's.")
    agent = wrapped(issue=issue, repo="")
    agent.run(FIRST)
    assert agent.learned is not None and agent.learned.issue_id == "web-417"
    with MemoryBank.open(tmp_path / "memory.lance") as bank:
        assert [experience.issue.repo for experience in bank.experiences()] == ["acme/web"]


# -- what was changed, and whether it was right


def test_the_patch_is_what_the_agent_changed_where_it_submits_none(wrapped: Make, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop / "notes.txt").write_text("the user's own\n")
    (shop / "shop" / "story.py").write_text("# the user was here\n")
    (shop / "staged.txt").write_text("x\n")
    git(shop, "add", "staged.txt")
    before = git(shop, "status", "--porcelain")
    noting = Noting()
    with FakeAnthropic(ScriptedModel({"": [f"{EDIT[0]}; echo new > shop/new.py", "git commit -qam 'agent' || true", GIVE_UP]})) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        wrapped(extractor=noting).run(FIRST)
    patch = noting.seen[0].trajectory.patch
    assert patch is not None
    assert re.findall(r"^diff --git a/(\S+)", patch, re.MULTILINE) == ["shop/marks.py", "shop/new.py"]
    assert "notes.txt" in before and (shop / "notes.txt").exists()


def test_the_users_index_is_left_as_it_was(wrapped: Make, shop: Path) -> None:
    (shop / "shop" / "story.py").write_text("# changed, not staged\n")
    before = git(shop, "status", "--porcelain")
    wrapped().run(FIRST)
    assert git(shop, "status", "--porcelain").replace(" M shop/marks.py\n", "") == before


def test_outside_a_repository_the_patch_is_unknown_and_so_is_the_rules_verdict(wrapped: Make, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "shop").mkdir(parents=True)
    (elsewhere / "shop" / "marks.py").write_text(FILES["shop/marks.py"])
    noting = Noting()
    agent = wrapped(cwd=elsewhere, extractor=noting, verdict=None)
    agent.run(FIRST)
    assert agent.problems == []
    assert agent.learned is not None and agent.learned.status == "nothing"


@pytest.mark.parametrize(
    ("say", "outcome", "source"),
    [
        ({"verdict": lambda _, trajectory: "points >= limit" in (trajectory.patch or "")}, "resolved", "caller"),
        ({"verdict": lambda *_: False}, "unresolved", "caller"),
        ({"verdict": lambda *_: None}, "unknown", "caller"),
        ({"verdict": lambda *_: Verdict.from_tests(resolved=True)}, "resolved", "tests"),
        ({"tests": "python -c 'from shop.marks import grade; assert grade(5, 5) == \"pass\"'"}, "resolved", "tests"),
        ({"tests": "exit 1"}, "unresolved", "tests"),
        ({"tests": "no-such-program"}, "unknown", "tests"),
        ({"tests": "kill -9 $$"}, "unknown", "tests"),
        ({}, "rules", "rules"),
    ],
)
def test_how_it_turned_out_is_told_by_a_function_by_tests_or_by_rules(
    say: dict[str, Any], outcome: str, source: str, wrapped: Make
) -> None:
    noting = Noting()
    agent = wrapped(extractor=noting, **{"verdict": None, **say})
    agent.run(FIRST)
    assert agent.problems == []
    assert agent.learned is not None
    if outcome == "unknown":
        assert (agent.learned.status, noting.seen) == ("nothing", [])
    elif source != "rules":
        assert (noting.seen[0].verdict.outcome, noting.seen[0].verdict.source) == (outcome, source)


def test_a_judge_may_tell_too(wrapped: Make) -> None:
    class Strict:
        name = "strict@1"

        def judge(self, issue: Issue, trajectory: Trajectory) -> Verdict:
            return Verdict("unresolved", "llm", "never good enough")

    noting = Noting()
    wrapped(extractor=noting, verdict=Strict()).run(FIRST)
    assert noting.seen[0].verdict.reason == "never good enough"


# -- what it says of itself


def test_a_short_fix_with_a_program_on_the_command_line_before_and_after_teaches_by_the_rules(
    wrapped: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = "cat shop/marks.py; python -c 'from shop.marks import grade; print(grade(5, 5))'"
    after = "python -c 'from shop.marks import grade; assert grade(5, 5) == \"pass\"'"
    with FakeAnthropic(ScriptedModel({"": [before, EDIT[0], after, GIVE_UP]})) as api, caplog.at_level(logging.INFO, "swe_memory"):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        agent = wrapped(extractor=None, tests="true", verdict=None)
        agent.run(FIRST)
    assert agent.problems == [] and agent.learned is not None
    (item,) = agent.learned.items
    assert item.title == "`grade` (shop/marks.py): correcting a comparison operator"
    assert "a reproduction of its own before and after" in item.content
    assert (agent.learned.status, agent.learned.reason) == ("learned", "")
    assert [record.message for record in caplog.records if "memory" in record.message] == [
        f"memory: learned from {agent.learned.issue_id}: {item.title}"
    ]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"verdict": lambda *_: None}, "its outcome is unknown"),
        ({"verdict": None, "tests": "no-such-program"}, "its outcome is unknown: `no-such-program` did not run to its end (code 127)."),
    ],
)
def test_why_a_run_taught_nothing_is_in_the_log_and_in_what_was_learned(
    settings: dict[str, Any], reason: str, wrapped: Make, caplog: pytest.LogCaptureFixture
) -> None:
    agent = wrapped(**settings)
    with caplog.at_level(logging.INFO, "swe_memory"):
        agent.run(FIRST)
    assert agent.problems == [] and agent.learned is not None
    assert (agent.learned.status, agent.learned.reason) == ("nothing", reason)
    (line,) = [record for record in caplog.records if record.name == "swe_memory"]
    assert (line.levelno, line.message) == (logging.INFO, f"memory: nothing was learned from {agent.learned.issue_id}: {reason}")


# -- harm


class Failing:
    name = "failing@1"

    def extract(self, attempt: Attempt) -> Extraction:
        raise RuntimeError("no room")


def _raise(*_: Any) -> Any:
    raise ZeroDivisionError("a mistake in the user's function")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"bank": __file__}, "nothing was recalled"),
        ({"verdict": _raise}, "nothing was learned: ZeroDivisionError"),
        ({"extractor": Failing()}, "nothing was learned: RuntimeError: no room"),
        ({"settings": "not settings"}, "nothing was recalled"),
        ({"issue": Issue("", "acme/shop", "")}, "nothing was recalled"),
    ],
    ids=["bank is a file", "verdict raises", "extractor raises", "settings are wrong", "issue is empty"],
)
def test_a_memory_that_fails_is_said_and_the_run_goes_on(
    broken: dict[str, Any], words: str, wrapped: Make, caplog: pytest.LogCaptureFixture, shop: Path
) -> None:
    agent = wrapped(**broken)
    with caplog.at_level(logging.WARNING, "swe_memory"):
        assert agent.run(FIRST)["exit_status"] == "Submitted"
    assert "points >= limit" in (shop / "shop" / "marks.py").read_text()
    assert any(words in problem for problem in agent.problems)
    assert all(record.levelno == logging.WARNING and "memory failed" in record.message for record in caplog.records)
    assert len(caplog.records) == len(agent.problems) > 0


def test_an_agent_that_takes_no_templates_runs_without_memory(tmp_path: Path) -> None:
    class Bare:
        def run(self, task: str, **variables: Any) -> dict[str, Any]:
            return {"exit_status": "Submitted"}

    agent = MemoryAgent(Bare(), bank=tmp_path / "m.lance", repo="acme/shop")
    assert agent.run(FIRST) == {"exit_status": "Submitted"}
    assert [problem.partition(":")[0] for problem in agent.problems] == [
        "what the agent was given is not in its prompt",
        "what the agent changes cannot be collected",
        "nothing was learned",
    ]


def test_a_run_that_raises_is_not_learned_from(wrapped: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anthropic._base_client.MAX_RETRY_DELAY", 0.0)
    with FakeAnthropic(lambda _: Error(529)) as broken:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", broken.url)
        agent = wrapped()
        with pytest.raises(InfraError):
            agent.run(FIRST)
    assert agent.learned is None
    with MemoryBank.open(tmp_path / "memory.lance") as bank:
        assert bank.experiences() == []


@pytest.mark.parametrize("wrong", [{"repo": ""}, {"tests": "true"}], ids=["no repository", "two ways to judge"])
def test_what_cannot_be_is_refused_when_the_agent_is_wrapped(wrong: dict[str, Any], wrapped: Make) -> None:
    with pytest.raises(UsageError):
        wrapped(**wrong)


def test_many_agents_share_one_bank(wrapped: Make, shop: Path, tmp_path: Path) -> None:
    agents = []
    for n in range(6):
        copy = tmp_path / f"copy-{n}"
        subprocess.run(["git", "clone", "-q", str(shop), str(copy)], check=True)
        agents.append(wrapped(cwd=copy))
    threads = [
        threading.Thread(target=agent.run, args=(f"Problem number {n} with basket, story and marks",)) for n, agent in enumerate(agents)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [agent.problems for agent in agents] == [[]] * 6
    with MemoryBank.open(tmp_path / "memory.lance") as bank:
        assert len(bank.experiences()) == 6
        wrapped(bank=bank, cwd=shop).run(FIRST)
        assert len(bank.experiences()) == 7, "an open bank is used as it is, and stays open"


def test_the_example_in_the_documentation_runs_as_it_stands(shop: Path, tmp_path: Path) -> None:
    """Through litellm, whose import takes four seconds, because that is what the example shows."""
    documented = textwrap.dedent(re.split(r"\n::\n", mini_swe_agent.__doc__ or "")[1].split("\nBefore a run")[0])
    assert len([line for line in documented.splitlines() if line.strip()]) <= 15
    assert [line for line in documented.splitlines() if "MemoryAgent(" in line] == [
        line for line in documented.splitlines() if "# the changed line" in line
    ]
    (tmp_path / "issue.md").write_text(FIRST)
    with FakeAnthropic(ScriptedModel({"": LEAVE})) as api:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "ANTHROPIC_API_KEY": api.key,
            "ANTHROPIC_BASE_URL": api.url,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        run = subprocess.run([sys.executable, "-c", documented], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1:] == ["Submitted"], run.stderr
    assert "memory failed" not in run.stderr
    with MemoryBank.open(tmp_path / "memory.lance") as bank:
        (learned,) = bank.experiences()
    assert (learned.verdict.source, learned.verdict.outcome, learned.paths) == ("tests", "resolved", ("shop/marks.py",))


def test_the_library_imports_no_agent_framework() -> None:
    """Plugins may, within their functions; this one needs none."""
    root = Path(mini_swe_agent.__file__).parents[1]
    found = [
        path.name for path in root.rglob("*.py") if re.search(r"^\s*(from|import) (minisweagent|litellm)\b", path.read_text(), re.MULTILINE)
    ]
    assert found == ["mini_swe_agent.py"], "its docstring alone shows an import"
    code = re.sub(r'""".*?"""', "", Path(mini_swe_agent.__file__).read_text(), flags=re.DOTALL)
    assert "minisweagent" not in code
