"""The harness's environment as mini-SWE-agent's Environment protocol has it (mini-SWE-agent 2.4: environments/local.py and docker.py)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from minisweagent.exceptions import InterruptAgentFlow, Submitted

if TYPE_CHECKING:
    from harness.environments import Environment
    from harness.metering import Limits, Meter

BROKEN = "EnvironmentBroken"
"""Exit status of an attempt whose agent left itself no shell. It has submitted nothing, as where a limit is reached."""
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

# What stands for the middle of an output that is longer than what is kept (harness.environments.bounded). No line of a patch begins so.
_CUT = re.compile(r"^\[\.\.\. [0-9]+ bytes of output left out \.\.\.\]$", re.MULTILINE)


class MiniEnvironment:
    """Commands go to ``environment``, each with the time that a command, and the attempt, has left. ``place`` is its working directory.

    ``cut_off``: the submission was too long to be kept whole.
    """

    def __init__(self, environment: Environment, limits: Limits, meter: Meter, place: str) -> None:
        self._environment = environment
        self._meter = meter
        self.config = {"cwd": place, "timeout": limits.command_seconds}
        self._seconds = limits.command_seconds
        self.cut_off = False

    def execute(self, action: Mapping[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run the command of ``action``: {output, returncode, exception_info}. Raises Submitted where it submits, InterruptAgentFlow where no command can be
        run any more."""
        command = str(action.get("command", ""))
        if cwd:
            command = f"cd -- {shlex.quote(cwd)} || exit\n{command}"
        left = self._meter.seconds_left
        seconds = self._seconds if left is None else min(self._seconds, left)
        execution = self._environment.execute(command, timeout=seconds)
        if execution.broken:
            raise InterruptAgentFlow({"role": "exit", "content": execution.output, "extra": {"exit_status": BROKEN, "submission": ""}})
        output: dict[str, Any] = {"output": execution.output, "returncode": execution.returncode, "exception_info": ""}
        if execution.timed_out:
            said = f"An error occurred while executing the command: it ran for more than {seconds:g} s and was ended."
            output |= {"returncode": -1, "exception_info": said, "extra": {"exception_type": "TimeoutExpired", "exception": said}}
        self._look_for_submission(output)
        return output

    def _look_for_submission(self, output: Mapping[str, Any]) -> None:
        lines = str(output["output"]).lstrip().splitlines(keepends=True)
        if not lines or lines[0].strip() != SUBMIT or output["returncode"] != 0:
            return
        submission = "".join(lines[1:])
        self.cut_off = _CUT.search(submission) is not None
        raise Submitted({"role": "exit", "content": submission, "extra": {"exit_status": "Submitted", "submission": submission}})

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        """What templates may use: where commands run, and how long. Nothing of this machine's own environment."""
        return dict(self.config)

    def serialize(self) -> dict[str, Any]:
        """The environment's part of a trajectory file."""
        kind = type(self._environment)
        return {"info": {"config": {"environment": dict(self.config), "environment_type": f"{kind.__module__}.{kind.__name__}"}}}
