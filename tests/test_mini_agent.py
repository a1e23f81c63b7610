"""mini-SWE-agent as an agent of the instrument, in a real repository, against a local server that speaks the Messages API."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from assignments import assignment
from fake_anthropic import Error, FakeAnthropic, Message, Request, isolate, tool_use
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import GIVE_UP, SUBMIT, ScriptedModel, fix
from small_bench import FILES, git

from harness.agents import Assignment, connect, make_agent
from harness.agents.mini import SUBMISSION_CUT, MiniAgent
from harness.agents.mini_config import load_mini, swebench_config
from harness.environments import Execution
from harness.environments.local import LocalEnvironment
from harness.metering import Limits, Meter
from harness.trajectory_file import Recorded, read_as_it_is, trajectory_document, trajectory_path
from swe_memory.claude import ModelCallError
from swe_memory.errors import InfraError, UsageError
from swe_memory.records import Issue, Trajectory, Usage

ISSUE = Issue("acme__shop-1", "acme/shop", "The limit itself does not pass\n\ngrade(5, 5) should be 'pass'.")
EDIT = fix("sed -i 's/points > limit/points >= limit/' shop/marks.py", "shop/marks.py")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A working copy of a small repository."""
    folder = tmp_path / "copy" / "repo"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Start")
    return folder


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeAnthropic], FakeAnthropic]:
    """Let agents find this server."""

    def point(api: FakeAnthropic) -> FakeAnthropic:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", api.key)
        return api

    return point


def attempt(work: Assignment, agent: MiniAgent | None = None) -> Recorded:
    assert work.workdir is not None
    with LocalEnvironment(work.workdir, timeout=work.limits.command_seconds, parent=work.scratch) as environment:
        found = (agent or MiniAgent("claude-haiku-5-5")).run(work, environment)
    assert isinstance(found, Recorded)
    return found


def test_an_attempt_edits_the_repository_and_submits_a_patch(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: [("ls", "cat shop/marks.py"), *EDIT]})) as api:
        serve(api)
        used: list[Usage] = []
        work = assignment(ISSUE, shop, record=used.append)
        found = attempt(work)
        assert (found.exit_status, found.calls, found.actions, found.agent) == ("Submitted", 4, 5, "mini")
        assert found.patch is not None and "+    if points >= limit:" in found.patch
        git(shop, "checkout", "-q", "shop/marks.py")
        subprocess.run(["git", "apply"], input=found.patch, text=True, cwd=shop, check=True)
        assert len(used) == 4
        spent = work.meter.spent
        assert (spent.calls, spent.input_tokens, spent.output_tokens) == tuple(api.served.values())
        assert (found.reported_calls, found.input_tokens, found.output_tokens) == (4, spent.input_tokens, spent.output_tokens)
        assert found.cost == spent.cost


def test_without_memory_the_prompts_are_minis_own_to_the_byte(shop: Path, serve: Any) -> None:
    load_mini()
    from jinja2 import Template

    config = swebench_config()["agent"]
    with FakeAnthropic(ScriptedModel({ISSUE.title: [GIVE_UP]})) as api:
        serve(api)
        attempt(assignment(ISSUE, shop))
        request = api.requests[0]
        assert request.system == Template(config["system_template"]).render()
        assert request.user == Template(config["instance_template"]).render(task=ISSUE.text).replace("/testbed", str(shop))


@pytest.mark.parametrize(
    "memory",
    [
        "## Notes\n\nThe limit is inclusive.",
        "{{ 7 * 7 }} {% raw %} {# gone? #} {{ undefined_thing.x }} {% if %} {% endraw %}",
        "{{ memory }} {{ task }} {{ config }}",
        "  leading and trailing\n\n",
    ],
)
def test_memory_comes_last_in_the_system_prompt_and_literally(memory: str, shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: [GIVE_UP]})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop, memory))
        bare, _, rest = api.requests[0].system.partition("\n\n")
        assert bare == swebench_config()["agent"]["system_template"].rstrip("\n")
        assert rest == memory
        assert found.document["messages"][0]["content"].endswith(memory)


def test_an_issue_that_is_a_template_is_shown_literally(shop: Path, serve: Any) -> None:
    issue = replace(ISSUE, text="{{ 7 * 7 }} is rendered\n\n{% for x in %} {{ memory }}")
    with FakeAnthropic(ScriptedModel({"is rendered": [GIVE_UP]})) as api:
        serve(api)
        attempt(assignment(issue, shop, "a note"))
        assert issue.text in api.requests[0].user


def test_a_model_acts_on_what_it_is_given_to_remember(shop: Path, serve: Any) -> None:
    def second(request: Request) -> str:
        return EDIT[0] if "inclusive" in request.system else "true"

    with FakeAnthropic(ScriptedModel({ISSUE.title: [second, *EDIT[1:]]})) as api:
        serve(api)
        assert attempt(assignment(ISSUE, shop, "Limits are inclusive here.")).patch
        git(shop, "checkout", "-q", ".")
        assert attempt(assignment(ISSUE, shop)).patch == ""


# -- how attempts end


def test_reaching_the_call_limit_is_an_outcome_without_a_patch(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["true"] * 9})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop, limits=Limits(calls=3)))
        assert (found.exit_status, found.patch, found.calls, len(api.requests)) == ("LimitsExceeded", "", 3, 3)


def test_reaching_a_token_limit_is_an_outcome_of_its_own(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["true"] * 9})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop, limits=Limits(tokens=1500)))
        assert (found.exit_status, found.patch, found.calls) == ("TokenLimitExceeded", "", len(api.requests))


def test_a_model_that_never_calls_a_tool_ends_by_minis_limit_and_every_call_is_a_step(shop: Path, serve: Any) -> None:
    with FakeAnthropic(["I am done.", Message("No.", "refusal"), tool_use("ls", name="python"), "never asked"]) as api:
        serve(api)
        work = assignment(ISSUE, shop)
        found = attempt(work)
        assert (found.exit_status, found.patch, found.calls, found.actions) == ("RepeatedFormatError", "", 3, 0)
        assert [step.thought for step in found.steps] == ["I am done.", "No.", ""]
        assert all(step.feedback for step in found.steps)
        assert work.notes == ["the model refused to answer"]
        assert work.meter.spent.calls == api.served["calls"] == 3
        assert found.cost == work.meter.spent.cost, "calls that gave nothing are paid for"


def test_a_model_that_comes_back_from_format_errors_goes_on(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: [Message("hm"), Message("cut", "max_tokens"), "true", Message("hm"), *EDIT]})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop))
        assert (found.exit_status, found.calls, found.actions) == ("Submitted", 7, 4)


def test_a_full_context_is_an_outcome(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["true", Error(400, "prompt is too long: 9 tokens > 8 maximum")]})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop))
        assert (found.exit_status, found.patch, found.calls, found.reported_calls) == ("ContextWindowExceeded", "", 1, 1)


def test_a_command_that_runs_too_long_is_told_to_the_model(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["echo begun; sleep 60", GIVE_UP]})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop, limits=Limits(command_seconds=0.3)))
        action = found.steps[0].actions[0]
        assert action.returncode == -1
        assert "begun" in action.output and "more than 0.3 s" in action.output
        assert "<exception>" in api.requests[1].results[0]


def test_the_attempts_time_ends_it_also_within_a_command(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["sleep 60"]})) as api:
        serve(api)
        found = attempt(assignment(ISSUE, shop, limits=Limits(seconds=0.6)))
        assert (found.exit_status, found.calls) == ("TimeLimitExceeded", 1)


def test_a_submission_that_is_too_long_to_keep_is_collected_instead(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: ["seq 100000 > big.txt; git add -N big.txt; git diff > patch.txt", SUBMIT]})) as api:
        serve(api)
        work = assignment(ISSUE, shop)
        found = attempt(work)
        assert (found.exit_status, found.patch, work.notes) == ("Submitted", None, [SUBMISSION_CUT])


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\ndiff", 0),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", 0),
        ("\n  COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT \r\n a\n\n", 0),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\ndiff", 1),
        ("x\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n", 0),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT x\n", 0),
        ("", 0),
    ],
)
def test_a_command_submits_exactly_where_it_does_for_mini(output: str, code: int) -> None:
    assert _submission(output, code) == _minis_submission(output, code)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=" \n\r\x0c\x1c\x85\u2028aCOM"), st.text(), st.sampled_from([0, 1]))
def test_a_command_submits_exactly_where_it_does_for_mini_whatever_is_around_it(before: str, after: str, code: int) -> None:
    output = f"{before}COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT{after}"
    assert _submission(output, code) == _minis_submission(output, code)


def _submission(output: str, code: int) -> str | None:
    load_mini()
    from minisweagent.exceptions import Submitted

    from harness.agents.mini_environment import MiniEnvironment

    class Fixed:
        def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
            return Execution(output, code)

        def close(self) -> None: ...

    try:
        MiniEnvironment(Fixed(), Limits(), Meter(Limits()), "/testbed").execute({"command": "x"})
    except Submitted as done:
        return str(done.messages[0]["extra"]["submission"])
    return None


def _minis_submission(output: str, code: int) -> str | None:
    load_mini()
    from minisweagent.environments.local import LocalEnvironment as Minis
    from minisweagent.exceptions import Submitted

    try:
        Minis()._check_finished({"output": output, "returncode": code})
    except Submitted as done:
        return str(done.messages[0]["extra"]["submission"])
    return None


# -- faults


def test_a_passing_fault_costs_the_attempt_nothing(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: EDIT}, faults={0: [Error(529)], 2: [Error(500), Error(429)]})) as api:
        serve(api)
        assert attempt(assignment(ISSUE, shop)).exit_status == "Submitted"
        assert len(api.requests) == 6


def test_a_lasting_fault_is_raised_as_the_machines(shop: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anthropic._base_client.MAX_RETRY_DELAY", 0.0)
    with FakeAnthropic(lambda _: Error(529)) as api:
        serve(api)
        with pytest.raises(InfraError, match="529"):
            attempt(assignment(ISSUE, shop))


def test_a_wrong_key_stops_the_run(shop: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([]) as api:
        serve(api)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-another")
        with pytest.raises(ModelCallError, match="key was not accepted") as caught:
            attempt(assignment(ISSUE, shop))
        assert caught.value.stop


def test_an_environment_that_breaks_is_the_machines_failure(shop: Path, serve: Any) -> None:
    class Broken:
        def execute(self, command: str, *, timeout: float | None = None, stop: threading.Event | None = None) -> Execution:
            if command == "pwd":
                return Execution("/testbed\n", 0)
            raise InfraError("the container is gone")

        def close(self) -> None: ...

    with FakeAnthropic(ScriptedModel({ISSUE.title: EDIT})) as api:
        serve(api)
        with pytest.raises(InfraError, match="the container is gone"):
            MiniAgent("claude-haiku-5-5").run(assignment(ISSUE, shop), Broken())


def test_attempts_side_by_side_share_one_client_and_keep_apart(shop: Path, serve: Any, tmp_path: Path) -> None:
    scripts = {f"Issue number {n}\n": [f"echo {n} > n.txt; git add -N n.txt; git diff > patch.txt", SUBMIT] for n in range(6)}
    with FakeAnthropic(ScriptedModel(scripts)) as api:
        serve(api)
        agent = MiniAgent("claude-haiku-5-5")
        found: dict[int, Recorded] = {}

        def work(n: int) -> None:
            copy = tmp_path / f"copy-{n}"
            subprocess.run(["git", "clone", "-q", str(shop), str(copy)], check=True)
            found[n] = attempt(assignment(Issue(f"i-{n}", "acme/shop", f"Issue number {n}\n"), copy), agent)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {n: f"+{n}\n" in (t.patch or "") for n, t in found.items()} == dict.fromkeys(range(6), True)


# -- what is kept


def test_what_is_written_is_minis_format_and_loses_nothing(shop: Path, serve: Any, tmp_path: Path) -> None:
    says = tool_use(EDIT[0], text="The limit must pass.", thinking="It says >, so 5 of 5 fails.")
    with FakeAnthropic(ScriptedModel({ISSUE.title: [Message("hm"), says, *EDIT[1:]]})) as api:
        serve(api)
        work = assignment(ISSUE, shop, "a note")
        found = attempt(work, MiniAgent("claude-haiku-5-5", "thinking=adaptive"))
    place = trajectory_path(tmp_path, ISSUE.id)
    place.parent.mkdir(parents=True)
    place.write_text(trajectory_document(found, work.memory, {"arm": "none"}, work.limits), encoding="utf-8")
    kept = json.loads(place.read_text())
    assert kept["trajectory_format"] == "mini-swe-agent-1.1"
    assert kept["instance_id"] == ISSUE.id
    assert kept["info"]["model_stats"] == {"instance_cost": work.meter.spent.cost, "api_calls": 4}
    assert kept["info"]["config"]["model"]["thinking"] == {"type": "adaptive"}
    assert kept["info"]["swe_memory"] == {"arm": "none"}
    assert kept["info"]["exit_status"] == "Submitted"
    assert kept["info"]["submission"] == found.patch
    turn = next(message for message in kept["messages"] if message["role"] == "assistant")
    assert turn["reasoning_content"] == "It says >, so 5 of 5 fails."
    assert turn["extra"]["response"]["usage"]["input_tokens"] > 0
    assert "The limit must pass." in found.steps[1].thought
    back = read_as_it_is(tmp_path, ISSUE.id)
    assert (back.steps, back.patch, back.exit_status, back.task) == (found.steps, found.patch, found.exit_status, found.task)
    assert (back.cost, back.reported_calls, back.input_tokens) == (found.cost, found.reported_calls, found.input_tokens)


def test_a_patch_that_was_collected_later_is_what_the_file_says(shop: Path, serve: Any) -> None:
    with FakeAnthropic(ScriptedModel({ISSUE.title: EDIT})) as api:
        serve(api)
        work = assignment(ISSUE, shop)
        found = replace(attempt(work), patch="diff --git a/x b/x\n", exit_status="PatchTooLarge")
    info = json.loads(trajectory_document(found, "", {}, work.limits))["info"]
    assert (info["submission"], info["exit_status"]) == ("diff --git a/x b/x\n", "PatchTooLarge")


def test_minis_inspector_opens_it_and_shows_every_step(shop: Path, serve: Any, tmp_path: Path) -> None:
    """The viewer itself, without a terminal: it takes a second or two to start."""
    says = tool_use(EDIT[0], text="The limit must pass.", thinking="It says >, so 5 of 5 fails.")
    with FakeAnthropic(ScriptedModel({ISSUE.title: [("ls", "cat shop/marks.py"), Message("hm"), says, *EDIT[1:]]})) as api:
        serve(api)
        work = assignment(ISSUE, shop)
        found = attempt(work)
    path = tmp_path / "i.traj.json"
    path.write_text(trajectory_document(found, "", {}, work.limits), encoding="utf-8")
    from minisweagent.run.utilities.inspector import TrajectoryInspector
    from textual.widgets import Static

    async def pages() -> list[str]:
        inspector = TrajectoryInspector([path])
        shown = []
        async with inspector.run_test() as pilot:
            for _ in range(inspector.n_steps):
                await pilot.pause()
                shown.append("\n".join(str(widget.render()) for widget in inspector.query(Static)))
                await pilot.press("l")
        return shown

    shown = asyncio.run(pages())
    assert len(shown) == 1 + 4, "the prompts, and one page for each turn that acted"
    assert ISSUE.title in shown[0]
    assert "cat shop/marks.py" in shown[1] and "points > limit" in shown[1]
    assert "It says >, so 5 of 5 fails." in shown[2]


def test_the_same_attempt_leaves_the_same_document_wherever_it_was_made(shop: Path, serve: Any, tmp_path: Path) -> None:
    calls = [tool_use("pwd; cat shop/marks.py", text="I look."), tool_use(EDIT[0]), tool_use(EDIT[1]), tool_use(SUBMIT)]
    documents = []
    for place in ("one", "another/place"):
        copy = tmp_path / place
        subprocess.run(["git", "clone", "-q", str(shop), str(copy)], check=True)
        with FakeAnthropic(ScriptedModel({ISSUE.title: calls})) as api:
            serve(api)
            work = assignment(ISSUE, copy)
            documents.append(trajectory_document(attempt(work), "", {}, work.limits))
            assert str(copy) in api.requests[0].user, "the model is told the truth"
    assert str(tmp_path) not in documents[0]
    one, two = map(json.loads, documents)
    for document in (one, two):  # a longer path is more tokens
        document["info"].pop("model_stats")
        for message in document["messages"]:
            message.get("extra", {}).pop("response", None)
            message.get("extra", {}).pop("cost", None)
    assert one == two


# -- settings


@pytest.mark.parametrize(
    ("settings", "spec", "body"),
    [
        ("", "", {}),
        ("thinking=adaptive", "thinking=adaptive", {"thinking": {"type": "adaptive"}}),
        (
            "max-tokens=9000, thinking=02000",
            "thinking=2000,max-tokens=9000",
            {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 9000},
        ),
        ("effort=high", "effort=high", {"output_config": {"effort": "high"}}),
    ],
)
def test_settings_reach_the_request_and_have_one_spelling(settings: str, spec: str, body: dict[str, Any], shop: Path, serve: Any) -> None:
    agent = make_agent(f"mini:{settings}" if settings else "mini", model="claude-haiku-5-5")
    assert agent.name == (f"mini:{spec}" if spec else "mini")
    with FakeAnthropic(ScriptedModel({ISSUE.title: [GIVE_UP]})) as api:
        serve(api)
        assert isinstance(agent, MiniAgent)
        attempt(assignment(ISSUE, shop), agent)
        asked = {"thinking": None, "output_config": None, "max_tokens": 16384} | api.requests[0].body
        assert {name: asked[name] for name in body} == body
        assert ("thinking" in body) == ("thinking" in api.requests[0].body)


@pytest.mark.parametrize(
    ("name", "model", "words"),
    [
        ("mini", "", "needs a language model"),
        ("mini:thinking", "claude-haiku-5-5", "no setting 'thinking'"),
        ("mini:speed=fast", "claude-haiku-5-5", "no setting 'speed=fast'"),
        ("mini:thinking=10", "claude-haiku-5-5", "from 1024"),
        ("mini:thinking=5000,max-tokens=4000", "claude-haiku-5-5", "leaves no room"),
        ("mini:thinking=20000", "claude-haiku-5-5", "leaves no room in max-tokens=16384"),
        ("mini:effort=huge", "claude-haiku-5-5", "none of the API's"),
        ("mini:effort=low,effort=high", "claude-haiku-5-5", "twice"),
        ("mini", "litellm:", "names no model"),
        ("mini:effort=low", "litellm:openai/gpt-5", "takes no settings"),
        ("minimal", "claude-haiku-5-5", "no agent called 'minimal'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_happens(name: str, model: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_agent(name, model=model)


def test_without_a_key_nothing_starts(shop: Path) -> None:
    agent = make_agent("mini", model="claude-haiku-5-5")
    with pytest.raises(UsageError, match="no key"):
        connect(agent, Limits())


@pytest.mark.parametrize("model", ["my-model", "bedrock:mine", "litellm:somebody/mine"])
def test_a_limit_in_dollars_is_refused_beforehand_where_the_price_is_not_known(model: str, shop: Path) -> None:
    agent = MiniAgent(model)
    with pytest.raises(UsageError, match=f"'{model}': its price is not known"):
        connect(agent, Limits(cost=1.0))
    with pytest.raises(UsageError, match="price is not known"):
        attempt(assignment(ISSUE, shop, limits=Limits(cost=1.0)), agent)


def test_agents_without_a_model_need_no_connection() -> None:
    connect(make_agent("repair"), Limits(cost=1.0))


def test_importing_mini_prints_nothing_makes_no_folder_and_reads_no_settings(tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "mini-swe-agent").mkdir(parents=True)
    (config / "mini-swe-agent" / ".env").write_text("ANTHROPIC_API_KEY=from-a-file\n")
    empty = tmp_path / "empty"
    script = (
        "import os, sys\nfrom harness.agents import make_agent, connect, Limits\nfrom harness.agents.mini_config import swebench_config\n"
        "agent = make_agent('mini', model='claude-haiku-5-5')\nassert 'minisweagent' not in sys.modules\nswebench_config()\n"
        "assert 'minisweagent' in sys.modules and 'litellm' not in sys.modules and 'openai' not in sys.modules\n"
        "assert not [name for name in os.environ if name.startswith(('MSWEA', 'ANTHROPIC'))], os.environ"
    )
    for home in (config, empty):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(home)}
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[1])
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert not empty.exists()


# -- litellm


def test_a_model_of_litellms_makes_the_same_attempt_with_minis_own_class(shop: Path, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing litellm takes four seconds: one test does it, over HTTP to a server that litellm speaks to as it would to the API."""
    monkeypatch.setenv("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "1")
    agent = MiniAgent("litellm:anthropic/claude-haiku-5-5")
    agent.check(Limits(cost=1.0))

    def script(request: Request) -> Any:
        return next(replies)

    with FakeAnthropic(script) as api:
        serve(api)
        replies = iter([tool_use("cat shop/marks.py", text="I look."), Message("hm"), *map(tool_use, EDIT)])
        work = assignment(ISSUE, shop, "{{ a }} note")
        found = attempt(work, agent)
        assert (found.exit_status, found.calls, found.actions) == ("Submitted", 5, 4)
        assert found.patch and "points >= limit" in found.patch
        assert api.requests[0].system.endswith("{{ a }} note")
        spent = work.meter.spent
        assert (spent.calls, spent.input_tokens, spent.output_tokens) == tuple(api.served.values())
        assert spent.cost is not None and spent.cost > 0

        for status, kind in ((529, InfraError), (500, InfraError), (429, InfraError), (401, ModelCallError), (404, ModelCallError)):
            replies = iter([Error(status)] * 20)
            with pytest.raises(kind):
                attempt(assignment(ISSUE, shop), agent)
        replies = iter([Error(400, "prompt is too long: 9 tokens > 8 maximum")])
        assert attempt(assignment(ISSUE, shop), agent).exit_status == "ContextWindowExceeded"

        replies = iter([f"THOUGHT: on.\n\n```mswea_bash_command\n{command}\n```" for command in ("git status", "echo two", GIVE_UP)])
        work = assignment(ISSUE, shop, "a note")
        found = attempt(work, MiniAgent("litellm_textbased:anthropic/claude-haiku-5-5"))
        assert (found.exit_status, found.calls, found.actions, found.patch) == ("Submitted", 3, 3, "")
        assert [step.actions[0].command for step in found.steps] == ["git status", "echo two", GIVE_UP]
        assert "tools" not in api.requests[-1].body
        assert work.meter.spent.calls == 3

    with FakeAnthropic(lambda _: tool_use("true")) as api:
        serve(api)
        work = assignment(ISSUE, shop, limits=Limits(calls=2))
        found = attempt(work, MiniAgent("litellm:anthropic/claude-of-my-own"))
        assert (found.exit_status, found.calls, work.meter.spent.cost) == ("LimitsExceeded", 2, None)

    with pytest.raises(UsageError, match="knows no provider of the model 'nobody/model'"):
        MiniAgent("litellm:nobody/model").connect()


def test_a_trajectory_is_not_what_an_agent_without_a_document_returns() -> None:
    text = trajectory_document(Trajectory((), "Submitted", "", "i", "task", agent="other"), "", {}, Limits())
    assert json.loads(text)["info"]["config"]["agent_type"] == "harness.agents.other"
