"""Any program as the agent: what it is told, how its end is read, and that nothing it does stops or deceives the harness."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.agents import Agent, Assignment, command_tail, make_agent
from harness.agents.command import CALLS_UNKNOWN, PRINTED, CommandAgent
from harness.agents.command_log import LEFT_OUT, LONGEST_LINE, MOST_TEXT, bounded_steps, read_line
from harness.agents.command_template import PLACEHOLDERS, CommandTemplate
from harness.dataset import load_dataset
from harness.environments.local import LocalEnvironment
from harness.instances import Instance
from harness.metering import Limits
from harness.workdir import Workdir, workdir_for
from swe_memory.errors import InfraError, SweMemoryError, UsageError
from swe_memory.records import Action, Issue, Step, Trajectory, Usage
from tests.assignments import assignment
from tests.small_bench import write_bench
from tests.test_local_environment import gone

SHELL_AGENT = Path(__file__).parent / "data" / "shell_agent.sh"
ISSUE = Issue("acme__shop-9", "acme/shop", "It breaks\n\nüber all, $HOME `x`\n", "0" * 40)
LINE = '{"thought": "t%d", "action": "a", "observation": "o", "usage": {"input_tokens": 10, "output_tokens": 1, "cost": 0.5}}'


class Attempt:
    """One run of a program on a plain folder, and what it left."""

    def __init__(self, folder: Path, command: str, *, limits: Limits | None = None, memory: str = "", issue: Issue = ISSUE) -> None:
        self.repo = folder / "repo"
        self.repo.mkdir(exist_ok=True)
        self.used: list[Usage] = []
        self.work = assignment(issue, self.repo, memory, limits or Limits(seconds=60), record=self.used.append)
        began = time.monotonic()
        with LocalEnvironment(self.repo, inherit=True) as environment:
            self.trajectory = make_agent(f"command: {command}").run(self.work, environment)
            self.left_running = environment._marked()
        self.seconds = time.monotonic() - began

    @property
    def status(self) -> str:
        return self.trajectory.exit_status

    @property
    def notes(self) -> str:
        return "\n".join(self.work.notes)


def script(folder: Path, body: str, name: str = "agent.sh") -> str:
    """A program of the user's with this body, as it is named in a command."""
    path = folder / name
    path.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return shlex.quote(str(path))


def braced(text: str) -> str:
    """The text as a word of a command."""
    return shlex.quote(text).replace("{", "{{").replace("}", "}}")


# --- the command ---

ODD = "/a b/$(touch pwned)`touch pwned`;touch pwned;'\"\\{x}é"


@pytest.mark.parametrize(
    ("template", "around"),
    [
        ("printf %s {issue_id}", ("", "")),
        ("printf %s x{issue_id}y", ("x", "y")),
        ('printf %s "x{issue_id}y"', ("x", "y")),
        ("printf %s 'x{issue_id}y'", ("x", "y")),
        ('printf %s "$(printf %s {issue_id})"', ("", "")),
        ('printf %s "$(printf %s "x{issue_id}")"', ("x", "")),
        ('printf %s $(true)"it\'s "{issue_id}', ("it's ", "")),
        ("printf %s \\'{issue_id}\\\"", ("'", '"')),
        ("printf %s 'a\\'{issue_id}", ("a\\", "")),
        ("printf %s $'a\\'b$'{issue_id}", ("a'b$", "")),
        ('printf %s "a\\"$\'b"{issue_id}', ("a\"$'b", "")),
        ("X={issue_id} bash -c 'printf %s \"$X\"'", ("", "")),
        ("(printf %s {{{issue_id}}})", ("{", "}")),
    ],
)
def test_a_value_is_one_literal_piece_of_text_wherever_it_stands(tmp_path: Path, template: str, around: tuple[str, str]) -> None:
    command = CommandTemplate.parse(template).fill(dict.fromkeys(PLACEHOLDERS, ODD))
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode() == f"{around[0]}{ODD}{around[1]}"
    assert not done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("# only a remark", "is empty"),
        ("KEY=value", "is empty"),
        ("cat {isue_file}", r"unknown placeholder \{isue_file\}\n.*\{issue_file\}, \{memory_file\}.*\{\{"),
        ("cat {}", r"unknown placeholder \{\}"),
        ("awk '{print}'", r"unknown placeholder \{print\}"),
        ("cat {workdir", r"a single \{"),
        ("cat workdir}", r"a single \}"),
        ("cat 'x", "not a bash command: .*matching"),
        ('cat "x', "not a bash command"),
        ("cat $(ls", "not a bash command"),
        ("cat )", "not a bash command"),
        ("cat `ls {workdir}`", r"\{workdir\}.*backticks"),
        ("cat $'{workdir}'", r"\{workdir\}.*safely"),
        ("cat \\{workdir}", r"\{workdir\}.*backslash"),
        ("cat <<END\n{issue_id}\nEND\n", r"\{issue_id\}.*here-document"),
        ("no-such-program-anywhere {workdir}", "'no-such-program-anywhere' is not on the PATH"),
        ("KEY=value no-such-program-anywhere", "not on the PATH"),
        ("./no-such-file {workdir}", r"\./no-such-file is no file"),
        ("/no/such/file", "/no/such/file is no file"),
        ("'./plain file' x", r"is not executable\n.*chmod"),
        ("python3 /no/such/agent.py", r"script /no/such/agent\.py is no file"),
        ("a\0b", "cannot be checked"),
    ],
)
def test_a_command_that_cannot_work_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    (tmp_path / "plain file").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"(?s){said}"):
        make_agent(f"command:{command}")


@pytest.mark.parametrize(
    ("command", "name", "program"),
    [
        ("./bin/my-agent --repo {workdir}", "my-agent", "{here}/bin/my-agent"),
        ("bin/my-agent", "my-agent", "{here}/bin/my-agent"),
        ("'bin/my-agent' x", "my-agent", "{here}/bin/my-agent"),
        ("on-path-agent {workdir}", "on-path-agent", "{here}/bin/on-path-agent"),
        ("KEY=1 OTHER='a b' ./bin/my-agent {{x}}", "my-agent", "{here}/bin/my-agent"),
        ("~/bin/my-agent", "my-agent", "{here}/bin/my-agent"),
        ("'./odd{{}}/an/agent!' x", "agent", "{here}/odd{}/an/agent!"),
        ("python3 -u agent.py {workdir}", "agent.py", "python3"),
        ("bash ./bin/my-agent", "my-agent", "bash"),
        ("python3 -m my_agent.main --out {patch_file}", "my_agent.main", "python3"),
        ("python3 -c 'print(1)'", "python3", "python3"),
        ("python3 setup.py", "setup.py", "python3"),
        ("sort", "sort", "sort"),
        ("cd src && ./run", "command", ""),
        ("{workdir}/run.sh --fast", "run.sh", ""),
        ("$MY_AGENT --fast", "MY_AGENT", ""),
        ("X=1; sort", "command", ""),
    ],
)
def test_a_program_is_found_from_where_the_user_stands_and_named_without_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str, program: str
) -> None:
    for file in ("bin/my-agent", "bin/on-path-agent", "odd{}/an/agent!"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        script(tmp_path, 'echo "ran $0"', file)
    (tmp_path / "agent.py").write_text("print('ran')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"bin{os.pathsep}{os.environ['PATH']}")
    template = CommandTemplate.parse(command)
    assert (template.name, template.program) == (name, program.replace("{here}", str(tmp_path)))
    assert template.available
    if "agent" in command and name not in ("my_agent.main", "command"):
        filled = template.fill(dict.fromkeys(PLACEHOLDERS, "x"))
        (tmp_path / "elsewhere").mkdir()
        assert (
            "ran" in subprocess.run(["bash", "-c", filled], cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=True).stdout
        )


def test_the_agent_is_known_by_a_short_name_that_tells_nothing_of_the_machine(tmp_path: Path) -> None:
    agent: Agent = make_agent(f"command: {script(tmp_path, 'true', 'my agent+2.sh')} --repo {{workdir}}")
    assert agent.users_environment
    assert agent.name == "my-agent+2.sh"
    assert len(CommandAgent(script(tmp_path, "true", "x" * 200)).name) == 60


# --- what the program is told ---


def test_the_program_gets_every_value_and_the_users_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "users-own")
    folder = tmp_path / "a folder's $name"
    folder.mkdir()
    places = " ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    program = script(folder, 'printf "%s\\n" "$PWD" "$MY_API_KEY" "$HOME" "$@" > told')
    attempt = Attempt(folder, f"{program} {places}", limits=Limits(calls=7, seconds=90.5), memory="Mind the limit: ü\n")
    here, key, home, *told = (attempt.repo / "told").read_text(encoding="utf-8").splitlines()
    given = dict(zip(PLACEHOLDERS, told, strict=True))
    assert (key, home) == ("users-own", os.environ["HOME"])
    assert here == given["workdir"] == str(attempt.repo.resolve())
    assert Path(given["issue_file"]).read_text(encoding="utf-8") == ISSUE.text
    assert Path(given["memory_file"]).read_text(encoding="utf-8") == "Mind the limit: ü\n"
    rest = {name: given[name] for name in ("issue_id", "repo", "base_commit", "call_limit", "seconds")}
    assert rest == {"issue_id": ISSUE.id, "repo": ISSUE.repo, "base_commit": "0" * 40, "call_limit": "7", "seconds": "90.5"}
    files = {given[name] for name in ("issue_file", "memory_file", "patch_file", "log_file", "trajectory_file")}
    assert len(files) == 5 and {Path(file).parent for file in files} == {attempt.work.scratch.resolve()}


def test_without_memory_the_file_is_there_and_empty_and_no_time_limit_is_zero(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "wc -c < {memory_file}; echo limit {seconds}", limits=Limits())
    assert attempt.notes.splitlines()[-2:] == [f"{PRINTED} 0", "limit 0"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Instance]:
    rows, repositories = write_bench(tmp_path_factory.mktemp("bench"))
    return {instance.issue.id[-1]: instance for instance in load_dataset(rows, repositories=repositories).instances}


def work_on(instance: Instance, folder: Path, command: str, memory: str = "") -> tuple[Workdir, Trajectory, Assignment, list[Usage]]:
    used: list[Usage] = []
    workdir = workdir_for(instance, folder / "repo")
    work = assignment(instance.issue, workdir.path, memory, Limits(seconds=60), record=used.append)
    with LocalEnvironment(workdir.path, inherit=True) as environment:
        return workdir, make_agent(f"command: {command}").run(work, environment), work, used


def test_a_shell_script_of_twenty_lines_is_an_agent(tmp_path: Path, bench: dict[str, Instance]) -> None:
    command = f"{shlex.quote(str(SHELL_AGENT))} {{issue_file}} {{memory_file}} {{log_file}}"
    workdir, trajectory, work, used = work_on(bench["1"], tmp_path, command)
    assert (trajectory.exit_status, trajectory.patch, trajectory.agent) == ("Submitted", None, "shell_agent.sh")
    assert "-    if points > limit:\n+    if points >= limit:\n" in workdir.patch()
    read, mend, check = trajectory.steps
    assert read == Step("The issue is about shop/marks.py.", (Action("cat shop/marks.py", read.actions[0].output, 0),))
    assert read.actions[0].output.startswith("def grade(points, limit):\n    if points > limit:\n")
    assert mend.actions[0].command == "sed -i 's/ > / >= /' shop/marks.py"
    assert "'{issue_file}'" in check.actions[0].command and check.actions[0].returncode == 0
    assert trajectory.reported_calls == 3 and trajectory.cost == pytest.approx(0.03)
    assert (trajectory.input_tokens, trajectory.output_tokens) == (300, 30)
    assert used == [Usage(1, 100, 10, 0.01)] * 3
    assert work.notes == []
    assert str(tmp_path) not in repr(trajectory.steps)


def test_what_memory_says_reaches_the_program(tmp_path: Path, bench: dict[str, Instance]) -> None:
    command = f"{shlex.quote(str(SHELL_AGENT))} {{issue_file}} {{memory_file}} {{log_file}}"
    for memory, mended in (("", False), ("A mutable default is shared between calls.", True)):
        workdir, trajectory, _, _ = work_on(bench["3"], tmp_path / str(mended), command, memory)
        assert ("+    basket = [] if basket is None else basket\n" in workdir.patch()) == mended
        assert trajectory.steps[-1].actions[0].returncode == (0 if mended else 1)
        assert trajectory.exit_status == "Submitted"


def test_nothing_of_the_grading_is_in_what_the_program_is_given(tmp_path: Path, bench: dict[str, Instance]) -> None:
    command = (
        "cat {issue_file} {memory_file}; env; find $(dirname {issue_file}) -type f; echo {issue_id} {repo} {base_commit} # {patch_file}"
    )
    _, _, work, _ = work_on(bench["1"], tmp_path, command)
    given = "".join(file.read_text(encoding="utf-8") for file in work.scratch.rglob("*") if file.is_file()) + "\n".join(work.notes)
    assert "The limit itself does not pass" in given
    for hidden in ("test_hidden", "test_marks_hidden", "PASS_TO_PASS", "FAIL_TO_PASS", "eval_script"):
        assert hidden not in given


# --- the patch ---

PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-ü\n+v\n"


def test_the_patch_file_wins_over_what_the_working_copy_shows(tmp_path: Path, bench: dict[str, Instance]) -> None:
    program = script(tmp_path, f"echo more >> shop/story.py; printf %s {shlex.quote(PATCH)} > $1")
    workdir, trajectory, work, _ = work_on(bench["1"], tmp_path, f"{program} {{patch_file}}")
    assert trajectory.patch == PATCH
    assert "+more\n" in workdir.patch()
    assert "patch" not in "".join(work.notes)


def test_without_a_patch_file_everything_that_was_changed_is_the_patch(tmp_path: Path, bench: dict[str, Instance]) -> None:
    body = "echo more >> shop/story.py; git add -A; git commit -qm mine; printf '\\0\\1' > binary; echo new > new; rm conftest.py; : > $1"
    workdir, trajectory, work, _ = work_on(bench["1"], tmp_path, f"{script(tmp_path, body)} {{patch_file}}")
    assert trajectory.patch is None and trajectory.exit_status == "Submitted"
    assert any("wrote no patch file" in note for note in work.notes)
    patch = workdir.patch()
    assert "+more\n" in patch and "GIT binary patch" in patch and "+new\n" in patch and "deleted file mode" in patch


def test_a_patch_file_is_text_with_a_newline_at_its_end(tmp_path: Path) -> None:
    for written in (PATCH, PATCH.rstrip("\n"), f"\ufeff{PATCH}"):
        attempt = Attempt(tmp_path, f"printf %s {shlex.quote(written)} > {{patch_file}}")
        assert attempt.trajectory.patch == PATCH
    assert Attempt(tmp_path, "printf ' \\n\\n' > {patch_file}").trajectory.patch is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("mkdir {patch_file}", "not an ordinary file"),
        ("mkfifo {patch_file}", "not an ordinary file"),
        ("ln -s /dev/zero {patch_file}", "not an ordinary file"),
        ("ln -s {issue_file} {patch_file}", "not an ordinary file"),
        ("ln -s {patch_file} {patch_file}", "not an ordinary file"),
        ("truncate -s 3G {patch_file}", r"has 3221225472 bytes; \d+ at most"),
        ("printf 'caf\\xe9' > {patch_file}", r"not UTF-8 \(byte 3\)"),
    ],
)
def test_a_patch_file_that_cannot_be_read_is_said_and_the_working_copy_counts(tmp_path: Path, command: str, said: str) -> None:
    attempt = Attempt(tmp_path, command)
    assert (attempt.status, attempt.trajectory.patch) == ("Submitted", None)
    assert re.search(said, attempt.notes) and "working copy was taken" in attempt.notes
    assert attempt.seconds < 20


@pytest.mark.parametrize("stats", [{"instance_cost": 10**400, "tokens_sent": 1}, {"tokens_sent": math.nan}])
def test_odd_numbers_in_a_trajectory_lose_no_step_and_spoil_no_count(tmp_path: Path, stats: dict[str, object]) -> None:
    attempt = Attempt(tmp_path, leaving(tmp_path, {**SWE_AGENT, "info": {"model_stats": stats}}))
    assert (attempt.status, len(attempt.trajectory.steps), attempt.trajectory.cost) == ("Submitted", 1, None)


# --- how it ends ---


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("true", "Submitted"),
        ("exit 0", "Submitted"),
        ("exit 1", "ExitedWith1"),
        ("exit 74", "ExitedWith74"),
        ("exit 126", "ExitedWith126"),
        ("true; no-such-program-anywhere", "ExitedWith127"),
        ("exit 128", "ExitedWith128"),
        ("exit 255", "ExitedWith255"),
        ("kill -9 $$", "KilledBySignal9"),
        ("bash -c 'kill -9 $$'", "KilledBySignal9"),
        ("bash -c 'kill -11 $$'; exit $?", "KilledBySignal11"),
    ],
)
def test_the_exit_code_says_how_the_attempt_ended_and_its_patch_counts_all_the_same(tmp_path: Path, command: str, status: str) -> None:
    attempt = Attempt(tmp_path, f"printf %s {shlex.quote(PATCH)} > {{patch_file}}; {command}")
    assert attempt.status == status
    assert attempt.trajectory.patch == PATCH
    assert (attempt.trajectory.issue_id, attempt.trajectory.task) == (ISSUE.id, ISSUE.text)


def test_a_program_that_hangs_is_ended_with_all_that_it_started_and_its_patch_counts(tmp_path: Path) -> None:
    body = f"""
    echo half > $1.part; printf %s {shlex.quote(PATCH)} > $1
    setsid sh -c 'trap "" TERM; echo $$ > session; while :; do sleep 1; done' &
    env -i setsid sh -c '(trap "" TERM; exec sleep 600) & echo $! > daemon' > /dev/null 2>&1 &
    sh -c 'echo $$ > child; exec sleep 600' &
    trap '' TERM; while :; do sleep 1; done"""
    attempt = Attempt(tmp_path, f"{script(tmp_path, body)} {{patch_file}}", limits=Limits(seconds=2))
    assert attempt.status == "TimeLimitExceeded"
    assert attempt.trajectory.patch == PATCH
    assert attempt.left_running == []
    assert all(gone(int((attempt.repo / name).read_text(encoding="utf-8"))) for name in ("session", "daemon", "child"))
    assert attempt.seconds < 20


@pytest.mark.parametrize("way", ["log", "trajectory"])
def test_a_temporary_failure_is_the_machines_but_what_was_used_is_known(tmp_path: Path, way: str) -> None:
    used: list[Usage] = []
    (tmp_path / "repo").mkdir()
    work = assignment(ISSUE, tmp_path / "repo", record=used.append)
    told = f"echo {braced(LINE % 1)} >> {{log_file}}" if way == "log" else leaving(tmp_path, mini(calls=2))
    agent = make_agent(f"command: {told}; echo API is down; exit 75")
    with LocalEnvironment(tmp_path / "repo", inherit=True) as environment, pytest.raises(InfraError, match=r"(?s)75.*API is down"):
        agent.run(work, environment)
    assert used == ([Usage(1, 10, 1, 0.5)] if way == "log" else [Usage(2, 0, 0, 0.75)])


def test_a_program_that_is_gone_in_the_middle_of_a_run_fails_no_attempt(tmp_path: Path) -> None:
    program = script(tmp_path, "true", "vanishing")
    agent = make_agent(f"command: {program} {{workdir}}")
    (tmp_path / "vanishing").unlink()
    (tmp_path / "repo").mkdir()
    with LocalEnvironment(tmp_path / "repo", inherit=True) as environment, pytest.raises(InfraError, match="cannot be started any more"):
        agent.run(assignment(ISSUE, tmp_path / "repo"), environment)


def test_a_machine_that_cannot_start_a_process_fails_no_attempt(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    with LocalEnvironment(tmp_path / "repo", inherit=True) as environment, pytest.raises(InfraError, match="cannot be started"):
        work = assignment(ISSUE, tmp_path / "repo")
        (tmp_path / "repo").rmdir()
        make_agent("command: true").run(work, environment)


def test_a_program_cannot_work_on_a_copy_that_is_on_another_machine(tmp_path: Path) -> None:
    work = replace(assignment(ISSUE, tmp_path), workdir=None)
    with LocalEnvironment(tmp_path, inherit=True) as environment, pytest.raises(UsageError, match="program on this machine"):
        make_agent("command: true").run(work, environment)


def test_a_run_that_is_halted_ends_the_program_and_knows_what_it_used(tmp_path: Path) -> None:
    halt = threading.Event()
    used: list[Usage] = []
    (tmp_path / "repo").mkdir()

    def record(usage: Usage) -> None:
        used.append(usage)
        halt.set()

    program = script(tmp_path, f"printf '%s\\n' {shlex.quote(LINE % 1)} >> $1; while :; do sleep 1; done")
    began = time.monotonic()
    with LocalEnvironment(tmp_path / "repo", inherit=True, halt=halt) as environment:
        make_agent(f"command: {program} {{log_file}}").run(
            assignment(ISSUE, tmp_path / "repo", limits=Limits(), record=record), environment
        )
        assert environment._marked() == []
    assert used == [Usage(1, 10, 1, 0.5)]
    assert time.monotonic() - began < 20


# --- what it printed ---


def test_the_end_of_what_it_printed_is_kept_without_secrets_and_without_the_machines_paths(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "abcDEF123_" * 9 + "AA"
    attempt = Attempt(tmp_path, f"echo first; echo {key} >&2; echo {{patch_file}} in $PWD: no such luck; exit 3")
    assert attempt.work.notes[-1].startswith(f"{PRINTED} first\n") and attempt.notes.endswith("{patch_file} in {workdir}: no such luck")
    assert key not in attempt.notes and str(tmp_path) not in attempt.notes


def test_a_flood_of_output_is_bounded(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo the end")
    assert attempt.notes.endswith("xx\nthe end")
    assert len(attempt.notes) < 3_000


# --- its steps ---


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ({"thought": "t", "action": "a", "observation": "o", "returncode": 2}, Step("t", (Action("a", "o", 2),))),
        ({"thought": "t"}, Step("t")),
        ({"thought": None, "action": None, "observation": None}, Step("")),
        ({"thought": "t", "action": "", "observation": "which format?"}, Step("t", (), "which format?")),
        ({"action": ["a", "b"], "observation": ["1", "2"], "returncode": [0, 1]}, Step("", (Action("a", "1", 0), Action("b", "2", 1)))),
        ({"action": ["a", "b"], "observation": "both", "returncode": 1}, Step("", (Action("a"), Action("b", "both", 1)))),
        ({"action": ["a"], "observation": ["1", "2"]}, Step("", (Action("a", "1\n2"),))),
        (
            {"action": [{"command": "a", "output": "1", "returncode": 0}, {"command": "b"}], "observation": ["x", "2"]},
            Step("", (Action("a", "1", 0), Action("b", "2"))),
        ),
        ({"action": {"command": "a", "output": "1", "returncode": 3}}, Step("", (Action("a", "1", 3),))),
        ({"action": "a", "observation": {"output": "o", "returncode": 4}}, Step("", (Action("a", "o", 4),))),
        ({"action": {"tool": "edit", "path": "x"}}, Step("", (Action('{"path": "x", "tool": "edit"}'),))),
        ({"action": "a", "returncode": math.nan}, Step("", (Action("a"),))),
        ({"action": "a", "returncode": True}, Step("", (Action("a"),))),
        ({"action": "a", "returncode": 10**400}, Step("", (Action("a"),))),
        ({"action": "a", "observation": ["o\0\ud800"]}, Step("", (Action("a", "o\ufffd\ufffd"),))),
        ({"action": ["a", 5, None, ["x", "y"]]}, Step("", (Action("a"), Action("5"), Action(""), Action("x\ny")))),
    ],
)
def test_a_line_of_the_log_is_a_step(line: dict[str, object], step: Step) -> None:
    assert read_line(json.dumps(line).encode()) == (step, None, "")


@pytest.mark.parametrize(
    ("usage", "read", "wrong"),
    [
        ({"input_tokens": 5, "output_tokens": 2, "cost": 0.25}, Usage(1, 5, 2, 0.25), ""),
        ({"input_tokens": 5.0}, Usage(1, 5, 0, None), ""),
        ({"cost": 0}, Usage(1, 0, 0, 0.0), ""),
        ({"input_tokens": -1, "output_tokens": "7", "cost": math.nan}, Usage(1, 0, 0, None), "input_tokens.*output_tokens.*cost"),
        ({"input_tokens": 10**30, "cost": math.inf}, Usage(1, 0, 0, None), "input_tokens.*cost"),
        ([1], None, "usage is not an object"),
        (None, None, ""),
    ],
)
def test_what_a_line_says_of_its_use_is_checked(usage: object, read: Usage | None, wrong: str) -> None:
    _, found, said = read_line(json.dumps({"thought": "", "usage": usage}).encode())
    assert found == read
    assert re.search(wrong, said) if wrong else not said


def test_use_is_told_while_the_program_runs_and_a_killed_attempt_is_paid_for(tmp_path: Path) -> None:
    # The program goes on only once its first call has been heard of.
    body = f"printf '%s\\n' {shlex.quote(LINE % 1)} >> $1; until [ -e heard ]; do sleep .01; done; printf '%s\\n' {shlex.quote(LINE % 2)} >> $1; sleep 600"
    used: list[Usage] = []
    repo = tmp_path / "repo"
    repo.mkdir()

    def record(usage: Usage) -> None:
        used.append(usage)
        (repo / "heard").touch()

    work = assignment(ISSUE, repo, limits=Limits(seconds=2.5), record=record)
    with LocalEnvironment(repo, inherit=True) as environment:
        trajectory = make_agent(f"command: {script(tmp_path, body)} {{log_file}}").run(work, environment)
    assert trajectory.exit_status == "TimeLimitExceeded"
    assert used == [Usage(1, 10, 1, 0.5)] * 2
    assert [step.thought for step in trajectory.steps] == ["t1", "t2"]
    assert (trajectory.reported_calls, trajectory.cost, trajectory.input_tokens) == (2, 1.0, 20)


ENDLESS = f"i=0; while :; do i=$((i + 1)); printf '{LINE}\\n' $i >> $1; sleep .15; done".replace("%d", "%s")


@pytest.mark.parametrize(
    ("limits", "status", "calls"),
    [
        (Limits(calls=3, seconds=60), "LimitsExceeded", 4),
        (Limits(seconds=60, tokens=30), "TokenLimitExceeded", 4),
        (Limits(seconds=60, cost=1.2), "CostLimitExceeded", 4),
    ],
    ids=["calls", "tokens", "cost"],
)
def test_a_program_that_goes_on_after_a_limit_is_ended(tmp_path: Path, limits: Limits, status: str, calls: int) -> None:
    attempt = Attempt(tmp_path, f"{script(tmp_path, ENDLESS)} {{log_file}}", limits=limits)
    assert attempt.status == status
    assert calls <= len(attempt.used) == attempt.trajectory.reported_calls <= calls + 8
    assert attempt.left_running == [] and attempt.seconds < 30


def test_a_program_that_hangs_at_its_last_call_is_ended_and_one_that_ends_by_itself_is_not_blamed(tmp_path: Path) -> None:
    two = f"printf '%s\\n' {shlex.quote(LINE % 1)} {shlex.quote(LINE % 2)} >> $1"
    limits = Limits(calls=2, seconds=60)
    assert Attempt(tmp_path, f"{script(tmp_path, f'{two}; sleep 600')} {{log_file}}", limits=limits).status == "LimitsExceeded"
    attempt = Attempt(
        tmp_path / "repo", f"{script(tmp_path, f'{two}; sleep .3; echo patch > $2')} {{log_file}} {{patch_file}}", limits=limits
    )
    assert (attempt.status, attempt.trajectory.patch) == ("Submitted", "patch\n")


def test_calls_beyond_the_limit_count_as_such_however_quickly_they_were_made(tmp_path: Path) -> None:
    lines = "".join(f"printf '%s\\n' {shlex.quote(LINE % n)} >> $1\n" for n in range(4))
    attempt = Attempt(tmp_path, f"{script(tmp_path, lines)} {{log_file}}", limits=Limits(calls=3, seconds=60))
    assert (attempt.status, attempt.trajectory.reported_calls) == ("LimitsExceeded", 4)


def test_what_the_meter_raises_ends_the_program_and_is_raised(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()

    def full(usage: Usage) -> None:
        raise SweMemoryError("no space left")

    work = assignment(ISSUE, tmp_path / "repo", limits=Limits(), record=full)
    with LocalEnvironment(tmp_path / "repo", inherit=True) as environment:
        with pytest.raises(SweMemoryError, match="no space left"):
            make_agent(f"command: {script(tmp_path, ENDLESS)} {{log_file}}").run(work, environment)
        assert environment._marked() == []


@pytest.mark.parametrize("again", ["mv {0}.new {0}", "cat {0}.new > {0}; rm {0}.new"], ids=["moved", "truncated"])
def test_a_log_that_is_written_anew_with_each_step_counts_each_call_once(tmp_path: Path, again: str) -> None:
    body = (
        "for n in 1 2 3 4 5; do : > $1.new; for m in $(seq $n); do printf '%s' '{\"thought\": \"'$m'\"}' >> $1.new; echo >> $1.new; done; "
    )
    attempt = Attempt(tmp_path, f"{script(tmp_path, body + again.format('$1') + '; sleep .15; done')} {{log_file}}")
    assert [step.thought for step in attempt.trajectory.steps] == ["1", "2", "3", "4", "5"]
    assert attempt.used == [Usage(1, 0, 0, None)] * 5
    assert attempt.trajectory.input_tokens is None and attempt.trajectory.cost is None


GOOD = shlex.quote(LINE % 1)
HOSTILE_LOGS: dict[str, tuple[str, int, str]] = {
    "no JSON": (f"echo hello > $1; echo {GOOD} >> $1", 1, "log line 1 is not JSON"),
    "half a last line": (f"echo {GOOD} > $1; printf '%s' '{{\"thought\": \"ab' >> $1", 1, "ends in the middle of line 2"),
    "a last line without a newline": (f"echo {GOOD} > $1; printf '%s' {GOOD} >> $1", 2, ""),
    "lists, numbers, null": (f"printf '[1]\\n7\\nnull\\n\\n{{}}\\n' > $1; echo {GOOD} >> $1", 1, "log line 1 is not a JSON object"),
    "NaN where a line should be": (f"echo NaN > $1; echo {GOOD} >> $1", 1, "log line 1 is not a JSON object"),
    "NaN in the use": ('echo \'{"thought": "x", "usage": {"cost": NaN}}\' > $1', 1, r"log line 1: its usage\.cost"),
    "nested without end": (
        f"head -c 3000000 /dev/zero | tr '\\0' '[' > $1; echo >> $1; echo {GOOD} >> $1",
        1,
        "log line 1 is nested too deeply",
    ),
    "a number without end": (f"head -c 3000000 /dev/zero | tr '\\0' 9 > $1; echo >> $1; echo {GOOD} >> $1", 1, "log line 1 is not JSON"),
    "wrong types": (
        'echo \'{"thought": {"a": [1]}, "action": 7, "observation": true, "returncode": "x"}\' > $1',
        1,
        "neither text nor a list",
    ),
    "not UTF-8": ('printf \'{"thought": "caf\\xe9\\x00"}\\n\' > $1', 1, ""),
    "a byte order mark and CR LF": ('printf \'\\xef\\xbb\\xbf{"thought": "x"}\\r\\n\' > $1', 1, ""),
    "a raw tab in a text": ('printf \'{"thought": "a\\tb"}\\n\' > $1', 1, ""),
    "many bad lines": (f"yes no | head -n 300 > $1; echo {GOOD} >> $1", 1, "295 more lines"),
    "bad lines without end": (f"yes no | head -n 3000000 > $1; echo {GOOD} >> $1", 0, "what follows line 10001 was not read"),
    "steps without end": ('yes \'{"thought": "x"}\' | head -n 3000000 > $1', 160, "100 calls more than the limit"),
    "a folder": ("mkdir $1", 0, "the log is not an ordinary file"),
    "a FIFO": ("mkfifo $1", 0, "the log is not an ordinary file"),
    "a link to a device": ("ln -s /dev/zero $1", 0, "the log is not an ordinary file"),
    "a link to itself": ("ln -s $1 $1", 0, "the log is not an ordinary file"),
    "nothing": (":", 0, ""),
    "an empty file": (": > $1", 0, ""),
    "the folder is gone": ("rm -r $(dirname $1)", 0, ""),
    "a file in the folder's place": ("rm -r $(dirname $1); echo > $(dirname $1)", 0, ""),
}


@pytest.mark.parametrize(("body", "steps", "said"), HOSTILE_LOGS.values(), ids=HOSTILE_LOGS.keys())
def test_whatever_the_log_is_the_steps_that_can_be_read_are_kept_and_the_rest_is_said(
    tmp_path: Path, body: str, steps: int, said: str
) -> None:
    attempt = Attempt(tmp_path, f"{script(tmp_path, body)} {{log_file}}")
    assert attempt.status == ("LimitsExceeded" if steps > 60 else "Submitted")
    assert len(attempt.trajectory.steps) == len(attempt.used) == steps
    assert attempt.trajectory.reported_calls == (steps or None)
    assert (CALLS_UNKNOWN in attempt.work.notes) == (not steps)
    other = [note for note in attempt.work.notes if note != CALLS_UNKNOWN]
    assert re.search(said, "\n".join(other)) if said else not other
    assert len(attempt.notes) < 5_000 and attempt.seconds < 30
    json.dumps([step.thought for step in attempt.trajectory.steps], ensure_ascii=False).encode()


def test_a_line_of_a_gigabyte_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    import resource

    body = f"printf '{{\"thought\": \"' > $1; head -c 1000000000 /dev/zero | tr '\\0' x >> $1; printf '\"}}\\n%s\\n' {GOOD} >> $1"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    attempt = Attempt(tmp_path, f"{script(tmp_path, body)} {{log_file}}")
    assert [step.thought for step in attempt.trajectory.steps] == ["t1"]
    assert f"log line 1 has more than {LONGEST_LINE} bytes" in attempt.notes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_a_log_is_not_read_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_tail, "_MOST_READ", 50_000_000)  # the real bound takes some seconds
    attempt = Attempt(tmp_path, f"{script(tmp_path, f'echo {GOOD} > $1; truncate -s 100G $1')} {{log_file}}")
    assert len(attempt.trajectory.steps) == 1
    assert "longer than 50000000 bytes; what follows line 1 was not read" in attempt.notes


def test_steps_that_are_too_long_together_stay_calls_without_their_text() -> None:
    long = Step("x" * (MOST_TEXT // 4))
    assert bounded_steps([long] * 6) == (long,) * 4 + (LEFT_OUT,) * 2


# --- its trajectory ---


def mini(*, calls: int = 2, status: str = "Submitted", cost: object = 0.75) -> dict[str, object]:
    turn = {"role": "assistant", "content": "I look.", "extra": {"actions": [{"command": "ls", "tool_call_id": "1"}]}}
    answer = {
        "role": "tool",
        "tool_call_id": "1",
        "content": "<returncode>0</returncode>\n<output>\nx\n</output>",
        "extra": {"returncode": 0},
    }
    info = {"model_stats": {"instance_cost": cost, "api_calls": calls}, "exit_status": status, "submission": ""}
    messages = [{"role": "user", "content": "Fix it."}, *[turn, answer] * 2]
    return {"info": info, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}


def leaving(folder: Path, document: object) -> str:
    (folder / "made.json").write_text(json.dumps(document), encoding="utf-8")
    return f"cp {shlex.quote(str(folder / 'made.json'))} {{trajectory_file}}"


def test_a_trajectory_that_the_program_leaves_is_read_and_paid_for(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, leaving(tmp_path, mini()))
    assert [step.actions for step in attempt.trajectory.steps] == [(Action("ls", "x", 0),)] * 2
    assert (attempt.status, attempt.trajectory.reported_calls, attempt.trajectory.cost) == ("Submitted", 2, 0.75)
    assert attempt.trajectory.patch is None and attempt.trajectory.task == ISSUE.text
    assert attempt.used == [Usage(2, 0, 0, 0.75)]
    assert attempt.work.notes == []


def test_a_trajectory_of_more_calls_than_the_limit_is_one_that_exceeded_it(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, leaving(tmp_path, mini(calls=5, status="LimitsExceeded")), limits=Limits(calls=4))
    assert attempt.status == "LimitsExceeded"
    assert "says how it ended: LimitsExceeded" in attempt.notes


def test_a_log_with_steps_wins_over_a_trajectory(tmp_path: Path) -> None:
    thought = braced('{"thought": "t"}')
    attempt = Attempt(tmp_path, f"{leaving(tmp_path, mini())}; echo {thought} > {{log_file}}")
    assert [step.thought for step in attempt.trajectory.steps] == ["t"]
    assert len(attempt.used) == 1


def test_calls_are_unknown_where_the_program_leaves_neither(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "true")
    assert (attempt.trajectory.reported_calls, attempt.trajectory.steps, attempt.used) == (None, (), [])
    assert attempt.work.notes == [CALLS_UNKNOWN]


SWE_AGENT = {"trajectory": [{"action": "ls", "response": "r", "thought": "t", "observation": "o"}]}
HOSTILE_TRAJECTORIES: dict[str, str | dict[str, object]] = {
    "a folder": "mkdir {trajectory_file}",
    "a FIFO": "mkfifo {trajectory_file}",
    "a link": "ln -s /dev/zero {trajectory_file}",
    "too large": "truncate -s 3G {trajectory_file}",
    "cut off": "printf '{{\"messages\": [' > {trajectory_file}",
    "no trajectory": "echo '[1]' > {trajectory_file}",
    "not UTF-8": "printf '\\xe9' > {trajectory_file}",
    "nested without end": "head -c 3000000 /dev/zero | tr '\\0' '[' > {trajectory_file}",
}


@pytest.mark.parametrize("what", HOSTILE_TRAJECTORIES.values(), ids=HOSTILE_TRAJECTORIES.keys())
def test_a_trajectory_that_cannot_be_read_is_said_and_calls_are_unknown(tmp_path: Path, what: str | dict[str, object]) -> None:
    attempt = Attempt(tmp_path, what if isinstance(what, str) else leaving(tmp_path, what))
    assert (attempt.status, attempt.trajectory.steps, attempt.trajectory.reported_calls) == ("Submitted", (), None)
    assert CALLS_UNKNOWN in attempt.work.notes and attempt.notes.startswith("the trajectory file")
    assert attempt.seconds < 20


@pytest.mark.parametrize("cost", [math.nan, math.inf, -1])
def test_numbers_that_a_journal_cannot_hold_are_unknown(tmp_path: Path, cost: float) -> None:
    document = {**SWE_AGENT, "info": {"model_stats": {"instance_cost": cost, "tokens_sent": 5, "tokens_received": 1, "api_calls": -3}}}
    attempt = Attempt(tmp_path, leaving(tmp_path, document))
    assert (attempt.trajectory.cost, attempt.trajectory.reported_calls) == (None, 1)
    assert attempt.used == [Usage(1, 5, 1, None)]


def test_programs_run_side_by_side_without_knowing_of_each_other(tmp_path: Path) -> None:
    agent = make_agent(f"command: {script(tmp_path, 'cp $1 told; printf %s $2 > $3')} {{issue_file}} {{issue_id}} {{patch_file}}")
    found: dict[int, str | None] = {}

    def attempt(number: int) -> None:
        repo = tmp_path / str(number)
        repo.mkdir()
        with LocalEnvironment(repo, inherit=True) as environment:
            found[number] = agent.run(assignment(Issue(f"i{number}", "a/b", f"text {number}"), repo), environment).patch
        assert (repo / "told").read_text(encoding="utf-8") == f"text {number}"

    run_all: list[Callable[[], None]] = [lambda n=n: attempt(n) for n in range(6)]  # type: ignore[misc]
    threads = [threading.Thread(target=one) for one in run_all]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"i{number}\n" for number in range(6)}
