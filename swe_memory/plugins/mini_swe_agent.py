"""Memory for a mini-SWE-agent script, by one changed line: the agent is wrapped.

::

    from pathlib import Path

    import yaml
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.config import builtin_config_dir
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel

    from swe_memory.plugins.mini_swe_agent import MemoryAgent

    config = yaml.safe_load((builtin_config_dir / "default.yaml").read_text())
    model = LitellmModel(model_name="anthropic/claude-haiku-5-5", **config["model"])
    agent = DefaultAgent(model, LocalEnvironment(cwd="shop", **config["environment"]), **config["agent"])
    agent = MemoryAgent(agent, bank="memory.lance", repo="acme/shop", tests="python -m pytest -q")  # the changed line
    print(agent.run(Path("issue.md").read_text())["exit_status"])

Before a run the one item that matters is recalled and comes at the end of the system prompt; after it the attempt is learned from. What it taught, or why it
taught nothing, is said in the log (logger ``swe_memory``, INFO). So is a memory that fails (WARNING), which never ends the agent's run. mini-SWE-agent 2 is
meant; nothing of it is imported here.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_memory.errors import UsageError
from swe_memory.records import Extractor, Issue, Judge, Learned, Recall, Trajectory, Verdict

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank
    from swe_memory.ranking import RankingSettings

__all__ = ["MemoryAgent"]

VARIABLE = "swe_memory"
"""The template variable that holds what was recalled. A system template that names it decides where memory stands; at the end of any other it is added."""

_PIECE = f"{{% if {VARIABLE} is defined and {VARIABLE} %}}\n\n{{{{ {VARIABLE} }}}}{{% endif %}}"
_TEST_SECONDS = 1800

# Prints the id of a tree that holds the working copy as it is, new files included. It is made by an index of its own: the user's stays as it was.
_SNAPSHOT = """\
git() { command git -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@" 2>/dev/null; }
folder="$(mktemp -d)" || exit 1
cp "$(git rev-parse --git-path index)" "$folder/index" 2>/dev/null
export GIT_INDEX_FILE="$folder/index"
git add -A >/dev/null && git write-tree
code=$?
rm -rf "$folder"
exit $code"""
_CHANGES = "git -c core.fsmonitor=false --no-pager diff --no-color --no-ext-diff {before} {after} 2>/dev/null"

_log = logging.getLogger("swe_memory")

Teller = Callable[[Issue, Trajectory], "Verdict | bool | None"]


class MemoryAgent:
    """``agent``, with a memory. Everything but :meth:`run` is the agent's own: its messages, cost, configuration.

    ``bank`` is a path or an address, opened before and after each run, or an open bank. ``issue`` says what the runs are about; with ``repo`` alone
    ("owner/name") each run's task is its issue. How an attempt turned out is told by one of: ``verdict``, a function of issue and trajectory (True: resolved,
    False: not, None: nobody can tell) or a judge; ``tests``, a command that is run in the agent's environment afterwards and passes with 0; otherwise rules,
    which are right more often than not, and no more. ``extractor`` and ``settings`` are those of the bank's learn and recall.

    Any number of these may run side by side on one bank, in threads and processes. Raises UsageError for arguments that cannot be.
    """

    def __init__(
        self,
        agent: Any,
        *,
        bank: str | Path | MemoryBank,
        issue: Issue | None = None,
        repo: str = "",
        verdict: Teller | Judge | None = None,
        tests: str = "",
        extractor: Extractor | None = None,
        settings: RankingSettings | None = None,
    ) -> None:
        if issue is None and not repo:
            raise UsageError("MemoryAgent is not told which repository this is about", 'Give repo="owner/name", or issue=Issue(...).')
        if verdict is not None and tests:
            raise UsageError("MemoryAgent is told of two ways to judge an attempt", "Give verdict= or tests=, not both.")
        self._agent = agent
        self._bank, self._issue, self._repo = bank, issue, repo
        self._verdict, self._tests = verdict, tests
        self._extractor, self._settings = extractor, settings
        self.recall: Recall | None = None
        """What the last run was given; None where nothing could be asked."""
        self.learned: Learned | None = None
        """What the last run taught, and in its ``reason`` why it taught nothing; None where nothing could be learned, which ``problems`` tells of."""
        self.problems: list[str] = []
        """What went wrong with memory, if anything did, in all runs."""

    def __getattr__(self, name: str) -> Any:
        if name == "_agent":  # not made yet, by a copy for example
            raise AttributeError(name)
        return getattr(self._agent, name)

    def run(self, task: str = "", **variables: Any) -> dict[str, Any]:
        """Run the agent as ``agent.run(task, **variables)``; what it returns and raises is its own. An attempt that raised is not learned from."""
        self.recall = self.learned = None
        issue = self._issue or Issue(f"task-{hashlib.sha256(task.encode('utf-8', 'replace')).hexdigest()[:16]}", self._repo, task)
        with self._unharmed("nothing was recalled, and the agent runs without memory"), self._open() as bank:
            self.recall = bank.recall(issue, settings=self._settings)
        before = ""
        with self._unharmed("what the agent was given is not in its prompt"):
            variables = {**variables, VARIABLE: self.recall.prompt if self.recall else ""}
            self._make_room()
        with self._unharmed("what the agent changes cannot be collected"):
            before = self._snapshot()
        result: dict[str, Any] = self._agent.run(task, **variables)
        with self._unharmed("nothing was learned"):
            trajectory = self._trajectory(before)
            verdict = self._judge(issue, trajectory)
            with self._open() as bank:
                self.learned = bank.learn(issue, trajectory, verdict, extractor=self._extractor, recall=self.recall)
            _log.info("memory: %s", _told(self.learned))
        return result

    @contextmanager
    def _unharmed(self, consequence: str) -> Iterator[None]:
        """Whatever goes wrong within is said and forgotten."""
        try:
            yield
        except Exception as error:
            problem = f"{consequence}: {type(error).__name__}: {error}"
            self.problems.append(problem)
            _log.warning("memory failed: %s", problem)

    @contextmanager
    def _open(self) -> Iterator[MemoryBank]:
        if not isinstance(self._bank, str | Path):
            yield self._bank
            return
        from swe_memory.bank import MemoryBank

        with MemoryBank.open(self._bank) as bank:
            yield bank

    def _make_room(self) -> None:
        """See that the system template has a place for memory. What stands there is a variable: nothing in it is ever taken for a template."""
        config = self._agent.config
        if VARIABLE not in config.system_template:
            # A template loses the newline at its end when it is filled in; in the middle it would stay.
            template = config.system_template.removesuffix("\n") + _PIECE
            self._agent.config = config.model_copy(update={"system_template": template})

    def _snapshot(self) -> str:
        """A name for the working copy as it is; "" where there is no repository, or none that this can be said of."""
        done = self._execute(_SNAPSHOT)
        words = done["output"].split()
        return words[0] if done["returncode"] == 0 and len(words) == 1 else ""

    def _trajectory(self, before: str) -> Trajectory:
        """The run as it was, with its patch: what it submitted, where that is one, else what it changed in the repository; None where nobody can say."""
        from swe_memory.trajectories import load_trajectory

        trajectory = load_trajectory(self._agent.serialize())
        if (trajectory.patch or "").lstrip().startswith(("diff --git ", "--- ")):
            return trajectory
        after = self._snapshot() if before else ""
        if not after:
            return replace(trajectory, patch=None)
        changes = self._execute(_CHANGES.format(before=before, after=after))
        return replace(trajectory, patch=changes["output"] if changes["returncode"] == 0 else None)

    def _judge(self, issue: Issue, trajectory: Trajectory) -> Verdict:
        if self._tests:
            return self._by_tests()
        if self._verdict is None:
            from swe_memory.judge.rules import RulesJudge

            return RulesJudge().judge(issue, trajectory)
        found = self._verdict.judge(issue, trajectory) if hasattr(self._verdict, "judge") else self._verdict(issue, trajectory)
        if found is None:
            return Verdict.unknown()
        return Verdict.from_caller(resolved=found) if isinstance(found, bool) else found

    def _by_tests(self) -> Verdict:
        """Unknown where the tests did not run to their end: what cannot be found, or takes too long, says nothing about the change."""
        done = self._execute(self._tests, seconds=_TEST_SECONDS)
        code = done["returncode"]
        if done.get("exception_info") or code in (124, 126, 127) or code < 0:
            return Verdict.unknown("tests", f"`{self._tests}` did not run to its end (code {code}).")
        return Verdict.from_tests(resolved=code == 0, reason=f"`{self._tests}` ended with {code}.")

    def _execute(self, command: str, seconds: int | None = None) -> dict[str, Any]:
        """Run a command where the agent's run; with more time than those have where the environment lets one ask for it."""
        execute = self._agent.env.execute
        more = {"timeout": seconds} if seconds and "timeout" in inspect.signature(execute).parameters else {}
        done: dict[str, Any] = execute({"command": command}, **more)
        return done


def _told(learned: Learned) -> str:
    """What one run taught, as a line of the log."""
    if learned.status == "nothing":
        return f"nothing was learned from {learned.issue_id}: {learned.reason}"
    if learned.status == "already":
        return f"this attempt at {learned.issue_id} was learned before"
    aside = f", {len(learned.quarantined)} quarantined" if learned.quarantined else ""
    return f"learned from {learned.issue_id}: {'; '.join(item.title for item in learned.items) or 'no item for use'}{aside}"
