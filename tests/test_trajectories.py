"""Readers: real files, files written by mini-SWE-agent itself, and every way a file can be bad."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_memory import load_trajectory
from swe_memory.errors import TrajectoryError, UsageError
from swe_memory.records import Issue, attempt_key, to_json
from swe_memory.trajectories import issue_text, reading

BLOCK = "THOUGHT: look around\n\n```bash\nls -la\n```"
REFUSAL = "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."


def mini1(*turns: tuple[str, str], **info: Any) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You are"},
        {"role": "user", "content": "<pr_description>\nIt breaks\n</pr_description>\n\nrules"},
    ]
    for said, answer in turns:
        messages += [
            {"role": "assistant", "content": said, "extra": {"response": {"usage": {"prompt_tokens": 10, "completion_tokens": 2}}}}
        ]
        messages += [{"role": "user", "content": answer}]
    base = {
        "exit_status": "Submitted",
        "submission": "",
        "model_stats": {"api_calls": len(turns), "instance_cost": 0.5},
        "mini_version": "1.15.0",
    }
    return {"info": {**base, **info}, "messages": messages, "trajectory_format": "mini-swe-agent-1", "instance_id": "acme__web-7"}


def test_format_1_splits_thought_command_and_return_code() -> None:
    trajectory = load_trajectory(mini1((BLOCK, "<returncode>2</returncode>\n<output>\nno such file\n</output>")))
    (step,) = trajectory.steps
    assert (step.thought, step.actions[0].command, step.actions[0].output, step.actions[0].returncode) == (
        "look around",
        "ls -la",
        "no such file",
        2,
    )
    assert (trajectory.issue_id, trajectory.cost, trajectory.reported_calls) == ("acme__web-7", 0.5, 1)
    assert (trajectory.input_tokens, trajectory.output_tokens) == (10, 2)


@pytest.mark.parametrize("said", ["I am done thinking, no block", f"{BLOCK}\n{BLOCK}"])
def test_a_turn_that_was_refused_stays_a_step_without_action(said: str) -> None:
    (step,) = load_trajectory(mini1((said, REFUSAL))).steps
    assert step.actions == () and step.feedback == REFUSAL and step.thought


def test_several_blocks_that_were_run_all_the_same_are_an_action() -> None:
    (step,) = load_trajectory(mini1((f"{BLOCK}\n```bash\npwd\n```", "<returncode>0</returncode>\n<output>\n/\n</output>"))).steps
    assert step.actions[0].command == "ls -la\npwd" and step.actions[0].returncode == 0


def test_a_single_block_that_was_refused_is_not_an_action() -> None:
    (step,) = load_trajectory(mini1((BLOCK, "Format error:\n\nno"))).steps
    assert step.actions == () and step.feedback.startswith("Format error")


@pytest.mark.parametrize(
    ("info", "patch"),
    [
        ({"submission": "diff --git a/x b/x\n"}, "diff --git a/x b/x\n"),
        ({"submission": ""}, ""),
        ({"submission": None}, ""),
        ({"exit_status": "LimitsExceeded", "submission": "The limit was reached"}, ""),
    ],
)
def test_the_patch_is_what_was_submitted_and_not_the_message_of_a_limit(info: dict[str, Any], patch: str) -> None:
    assert load_trajectory(mini1((BLOCK, "x"), **info)).patch == patch


def test_no_patch_known_is_none() -> None:
    data = mini1((BLOCK, "x"))
    del data["info"]["submission"]
    assert load_trajectory(data).patch is None


SCRIPT = r"""
import json, sys
from pathlib import Path
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import FormatError
from minisweagent.models.test_models import (DeterministicModel, DeterministicResponseAPIToolcallModel, DeterministicToolcallModel,
    make_output, make_response_api_output, make_toolcall_output)
out = Path(sys.argv[1])
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo 'diff --git a/m.py b/m.py'"
def call(key, command):
    return {"id": key, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
def act(key, command):
    return {"command": command, "tool_call_id": key}
refused = FormatError({"role": "user", "content": "No tool calls found", "extra": {"interrupt_type": "FormatError", "cost": 0.25,
    "response": {"choices": [{"message": {"content": "just prose"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}}})
runs = {
    "text": DeterministicModel(outputs=[
        make_output("THOUGHT: first\n```mswea_bash_command\necho hi; exit 3\n```", [{"command": "echo hi; exit 3"}]),
        make_output("THOUGHT: end\n```mswea_bash_command\n" + SUBMIT + "\n```", [{"command": SUBMIT}])]),
    "tools": DeterministicToolcallModel(outputs=[
        make_toolcall_output("two at once", [call("a", "echo one"), call("b", "echo two >&2; false")], [act("a", "echo one"), act("b", "echo two >&2; false")]),
        make_toolcall_output("", [], [{"raise": refused}]),
        make_toolcall_output(None, [call("c", SUBMIT)], [act("c", SUBMIT)])]),
    "responses": DeterministicResponseAPIToolcallModel(outputs=[
        make_response_api_output("look", [act("a", "echo one"), act("b", "echo two")]),
        make_response_api_output(None, [act("c", SUBMIT)])]),
    "limit": DeterministicToolcallModel(outputs=[make_toolcall_output("go", [call("a", "echo one")], [act("a", "echo one")])] * 3),
}
for name, model in runs.items():
    model.serialize = lambda: {"info": {"config": {"model": {"model_name": "scripted"}}}}  # an exception among the outputs is not JSON
    agent = DefaultAgent(model, LocalEnvironment(), system_template="S", instance_template="<pr_description>\n{{task}}\n</pr_description>",
                         output_path=out / f"{name}.traj.json", step_limit=2 if name == "limit" else 0, cost_limit=0)
    agent.run("It breaks")
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trajectories that mini-SWE-agent 2 wrote itself, with its own test models and its local environment."""
    if find_spec("minisweagent") is None:  # importing it here would write into the developer's home folder
        pytest.skip("needs the harness extra")
    folder = tmp_path_factory.mktemp("mini2")
    env = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(folder / "config")}
    subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], check=True, env=env, capture_output=True, timeout=120)
    return folder


def test_format_1_1_with_text_actions(written: Path) -> None:
    trajectory = load_trajectory(written / "text.traj.json")
    assert trajectory.format == "mini-swe-agent-1.1" and trajectory.exit_status == "Submitted"
    assert [(s.thought, s.actions[0].output, s.actions[0].returncode) for s in trajectory.steps] == [("first", "hi", 3), ("end", "", None)]
    assert trajectory.patch == "diff --git a/m.py b/m.py\n" and trajectory.calls == trajectory.reported_calls == 2


def test_format_1_1_with_several_tool_calls_a_turn_and_a_refused_reply(written: Path) -> None:
    trajectory = load_trajectory(written / "tools.traj.json")
    assert trajectory.calls == trajectory.reported_calls == 3 and trajectory.actions == 3
    first, refused, last = trajectory.steps
    assert [(a.command, a.output, a.returncode) for a in first.actions] == [("echo one", "one", 0), ("echo two >&2; false", "two", 1)]
    assert (refused.thought, refused.actions, refused.feedback) == ("just prose", (), "No tool calls found")
    assert last.actions[0].command.startswith("echo COMPLETE") and trajectory.input_tokens == 7
    assert trajectory.patch == "diff --git a/m.py b/m.py\n" and issue_text(trajectory.task) == "It breaks"


def test_format_1_1_over_the_responses_api(written: Path) -> None:
    trajectory = load_trajectory(written / "responses.traj.json")
    assert [len(step.actions) for step in trajectory.steps] == [2, 1] and trajectory.steps[0].thought == "look"
    assert trajectory.steps[0].actions[1].output == "two" and trajectory.calls == trajectory.reported_calls


def test_a_run_that_hit_its_limit_has_an_empty_patch_and_says_why(written: Path) -> None:
    trajectory = load_trajectory(written / "limit.traj.json")
    assert (trajectory.exit_status, trajectory.patch, trajectory.calls, trajectory.actions) == ("LimitsExceeded", "", 2, 2)


def test_bare_lists_in_the_shapes_of_openai_and_anthropic() -> None:
    openai = [
        {"role": "user", "content": "Fix it"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "edit", "arguments": '{"path": "a.py"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    anthropic = [
        {"role": "user", "content": [{"type": "text", "text": "Fix it"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "see"}, {"type": "tool_use", "id": "1", "name": "bash", "input": {"command": "ls"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a.py"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]
    one, two = load_trajectory(openai), load_trajectory(anthropic)
    assert one.task == two.task == "Fix it" and one.format == "messages" and one.patch is None
    assert one.steps[0].actions[0].command == 'edit {"path": "a.py"}' and one.steps[0].actions[0].output == "ok"
    assert (two.steps[0].thought, two.steps[0].actions[0].command, two.steps[0].actions[0].output) == ("see", "ls", "a.py")
    assert two.steps[1].thought == "done" and load_trajectory({"messages": openai}) == one


def test_swe_agent_entries_become_steps_and_its_own_last_words_feedback() -> None:
    data = {
        "history": [
            {"role": "user", "content": "demo", "is_demo": True},
            {"role": "user", "content": "Here's the issue text:\nISSUE:\nIt breaks\n\nINSTRUCTIONS:\nNow"},
        ],
        "trajectory": [
            {"action": "ls\n", "observation": "a.py", "response": "see\n```\nls\n```", "thought": "see\n"},
            {"action": "", "observation": "not valid", "response": "prose", "thought": "prose"},
            {"action": "", "observation": "", "response": "", "thought": "Exit due to cost limit"},
        ],
        "info": {
            "exit_status": "exit_cost",
            "submission": None,
            "model_stats": {"api_calls": 2, "instance_cost": 1.5, "tokens_sent": 9, "tokens_received": 4},
        },
    }
    trajectory = load_trajectory(data)
    assert trajectory.calls == trajectory.reported_calls == 2 and trajectory.actions == 1 and trajectory.patch == ""
    assert trajectory.steps[1].feedback == "not valid\nExit due to cost limit" and issue_text(trajectory.task) == "It breaks"
    assert (trajectory.cost, trajectory.input_tokens, trajectory.output_tokens) == (1.5, 9, 4)


BAD = {
    "cut in half": (json.dumps(mini1((BLOCK, "out"))).encode()[:400], "cut off"),
    "cut after a comma": (b'{"messages": [],', "cut off"),
    "cut in a literal": (b'{"a": tru', "cut off"),
    "cut in a number": (b'{"cost": 0.', "cut off"),
    "empty": (b" \n", "is empty"),
    "not UTF-8": ('{"messages": "café"}'.encode("latin-1"), "not UTF-8"),
    "not JSON": (b'{"messages": [1, 2] oops}', "is not JSON"),
    "unknown format": (b'{"trajectory_format": "other-9", "messages": []}', "not known here: 'other-9'"),
    "something else": (b'{"name": "package", "version": 1}', "not a trajectory: an object with the keys name, version"),
    "a list of numbers": (b"[1, 2]", "not a trajectory"),
    "an empty list": (b"[]", "an empty list"),
    "nested too deeply": (b"[" * 100_000, "nested too deeply"),
    "a giant number": (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gets_an_error_with_place_and_way_out(name: str, tmp_path: Path) -> None:
    content, expected = BAD[name]
    path = tmp_path / "x.traj.json"
    path.write_bytes(content)
    with pytest.raises(TrajectoryError, match=expected) as caught:
        load_trajectory(path)
    assert str(path) in caught.value.what and caught.value.hint


def test_missing_files_folders_and_unknown_formats_are_named(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match="does not exist"):
        load_trajectory(tmp_path / "none.traj")
    with pytest.raises(TrajectoryError, match="is a folder"):
        load_trajectory(tmp_path)
    with pytest.raises(UsageError, match="unknown trajectory format"):
        load_trajectory([], format="nonsense")
    with pytest.raises(TrajectoryError, match="not in the format 'swe-agent'"):
        load_trajectory(mini1((BLOCK, "x")), format="swe-agent")


def test_a_file_over_the_size_limit_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "big.traj.json"
    with path.open("wb") as file:
        file.truncate(reading.MAX_FILE_BYTES + 1)  # sparse: no disk is used
    with pytest.raises(TrajectoryError, match="over the limit of 256 MB"):
        load_trajectory(path)


def test_a_file_of_100_mb_is_read_and_its_texts_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.traj.json"
    path.write_text(json.dumps(mini1((BLOCK, f"<returncode>0</returncode>\n<output>\n{'x' * 100_000_000}\n</output>"))))
    trajectory = load_trajectory(path)
    output = trajectory.steps[0].actions[0].output
    assert re.search(r"\n\[99000\d{3} characters left out on reading\]\n", output) and len(output) < 1_001_000


def swe_agent(**info: Any) -> dict[str, Any]:
    steps = [{"thought": "look", "action": "ls", "observation": "a.py"}]
    return {"trajectory": steps, "history": [], "info": {"exit_status": "submitted", **info}, "environment": "swe_main"}


@pytest.mark.parametrize("form", [mini1, swe_agent])
def test_a_large_patch_is_read_whole_for_cut_it_is_no_patch(form: Any) -> None:
    patch = "diff --git a/x b/x\n" + "+line\n" * 400_000
    assert load_trajectory(form(submission=patch)).patch == patch


@pytest.mark.parametrize("form", [mini1, swe_agent])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, "many", None, [1], {}, True])
def test_no_number_in_a_file_can_spoil_the_counts(form: Any, value: Any) -> None:
    stats = {"api_calls": value, "instance_cost": value, "tokens_sent": value, "tokens_received": value}
    found = load_trajectory(form(submission="", model_stats=stats))
    assert found.calls >= 0 and all(n is None or (n == n and abs(n) < 2**53) for n in (found.cost, found.input_tokens, found.output_tokens))


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "x.traj.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(mini1((BLOCK, "x"))).encode())
    assert load_trajectory(path).calls == 1


def test_lone_surrogates_and_nuls_do_not_break_later_writes(tmp_path: Path) -> None:
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(mini1(("a\ud800b\x00" + BLOCK, "\udfff out\x00"), exit_status="Sub\ud800", submission="\ud800")))
    trajectory = load_trajectory(path)
    to_json(trajectory).encode("utf-8")
    assert "\x00" not in to_json(trajectory) and attempt_key(Issue("a", "b", ""), trajectory)


KEYS = ["role", "content", "extra", "actions", "command", "tool_calls", "id", "function", "output", "type", "text", "usage", "response"]
KEYS += ["submission", "info", "messages", "trajectory", "action"]
SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
JSON_VALUE = st.recursive(SCALARS, lambda c: st.lists(c, max_size=3) | st.dictionaries(st.sampled_from(KEYS), c, max_size=4), max_leaves=12)
BODIES = st.lists(
    st.dictionaries(st.sampled_from(["content", "extra", "tool_calls", "output", "tool_call_id", "usage"]), JSON_VALUE, max_size=4),
    max_size=5,
)
ROLES = st.lists(st.sampled_from(["assistant", "user", "tool", "exit"]), min_size=5, max_size=5)


@given(BODIES, ROLES, JSON_VALUE)
def test_odd_values_inside_messages_never_crash_the_reader(bodies: list[dict[str, Any]], roles: list[str], info: Any) -> None:
    messages = [{"role": role, **body} for role, body in zip(roles, bodies, strict=False)]
    trajectory = load_trajectory({"messages": messages, "info": info, "trajectory_format": "mini-swe-agent-1.1"})
    to_json(trajectory).encode("utf-8")
    assert trajectory.calls >= sum(role == "assistant" for role in roles[: len(bodies)])


@given(JSON_VALUE)
def test_any_json_is_read_or_refused_in_words(value: Any) -> None:
    try:
        load_trajectory(value if isinstance(value, list | dict) else [value])
    except TrajectoryError as error:
        assert error.hint


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            "<pr_description>\nConsider the following PR description:\nTitle\n\ntext </pr_description> more\n</pr_description>\n<instructions>",
            "Title\n\ntext </pr_description> more",
        ),
        (
            "Please solve this issue: Title\ntext\n\nYou can execute bash commands and edit files to implement the necessary changes.\n\n## Rules",
            "Title\ntext",
        ),
        ("We're solving an issue. Here's the issue text:\nISSUE:\nTitle\n\n\nINSTRUCTIONS:\nNow, you're going to", "Title"),
        ("Title\n\njust the text\n", "Title\n\njust the text"),
        (
            "## Notes from past attempts\n\nintro\n\n<past-attempts-0123456789abcdef>\nother\n</past-attempts-0123456789abcdef>\n\nTitle",
            "Title",
        ),
        ("<past-attempts-0123456789abcdef>\nnever closed", "<past-attempts-0123456789abcdef>\nnever closed"),
        ("<pr_description></pr_description>", "<pr_description></pr_description>"),
        ("", ""),
    ],
)
def test_the_agents_instructions_are_taken_off_the_issue(task: str, expected: str) -> None:
    assert issue_text(task) == expected


def test_all_real_attempts_are_read_and_their_counts_and_patches_agree(shared: Path) -> None:
    run = shared / "runs" / "mini-1.15-gemini-3-pro"
    predictions = json.loads((run / "preds.json").read_text())
    trajectories = [load_trajectory(path) for path in sorted(run.glob("trajs/*/*.traj.json"))]
    assert len(trajectories) == 150
    assert all(t.calls == t.reported_calls for t in trajectories)
    assert all(t.patch == predictions[t.issue_id]["model_patch"] for t in trajectories)
    without_action = [step for t in trajectories for step in t.steps if not step.actions]
    assert len(without_action) == 212 and all(step.feedback and step.thought for step in without_action)


def test_the_issue_is_found_word_for_word_in_every_real_task(shared: Path) -> None:
    rows = [json.loads(line) for line in (shared / "verified" / "issues-dev.jsonl").read_text().splitlines()]
    texts = {row["instance_id"]: row["problem_statement"].strip() for row in rows}
    run = shared / "runs" / "mini-1.15-gemini-3-pro"
    found = [(t.issue_id, issue_text(t.task)) for t in map(load_trajectory, sorted(run.glob("trajs/*/*.traj.json")))]
    known = [(key, text) for key, text in found if key in texts]
    assert len(known) == 150 and all(texts[key] == text for key, text in known)


def test_the_sample_files_of_both_agents_are_read(shared: Path) -> None:
    for path in sorted((shared / "formats").glob("*/*.traj*")):
        trajectory = load_trajectory(path)
        assert trajectory.calls > 1 and trajectory.actions == trajectory.calls and trajectory.task
        assert trajectory.reported_calls in (None, trajectory.calls)
