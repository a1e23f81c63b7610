"""mini-SWE-agent's own agent on a language model: its DefaultAgent, its SWE-bench templates, its trajectory format.

Nothing of its texts is kept here: they are read from the installed package. What is added is memory at the end of the system prompt, and the harness's
environment and meter around it. Without memory the prompts are its own to the byte, but for the path of the repository where that is not /testbed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from harness.agents.mini_config import MAX_TOKENS, TESTBED, MiniSettings, agent_config, load_mini, swebench_config
from harness.trajectory_file import Recorded
from swe_memory.errors import UsageError
from swe_memory.records import Trajectory

if TYPE_CHECKING:
    from harness.agents import Assignment
    from harness.environments import Environment
    from harness.metering import Limits, Meter
    from swe_memory.claude import Claude
    from swe_memory.rate import RateLimiter

SUBMISSION_CUT = "the submission was longer than what is kept of an output; what the agent changed in the working copy was taken"

_LITELLM = ("litellm", "litellm_response", "litellm_textbased")


class MiniAgent:
    """``model`` is a Claude model by its API name, ``bedrock:NAME``, ``vertex:NAME``, or ``litellm:NAME`` for one that litellm knows, by mini-SWE-agent's own
    classes (``litellm_response:`` for the Responses API, ``litellm_textbased:`` for models without tools). ``settings``: see
    :meth:`harness.agents.mini_config.MiniSettings.parse`; they are for Claude.

    ``claude`` is a transport of one's own, in place of the one that :meth:`connect` makes.

    Raises UsageError for what cannot be: no model, an unknown setting, mini-SWE-agent not installed. No key is needed before :meth:`connect`.
    """

    users_environment = False

    def __init__(self, model: str, settings: str = "", *, claude: Claude | None = None) -> None:
        if not model:
            raise UsageError("the agent mini needs a language model", "Name one with --model, for example --model claude-haiku-5-5.")
        if find_spec("minisweagent") is None:
            raise UsageError("mini-SWE-agent is not installed", "Install it with: pip install 'swe-memory[harness]'")
        self.settings = MiniSettings.parse(settings)
        self.name = f"mini:{self.settings.spec}" if self.settings.spec else "mini"
        self.model = model
        kind, _, name = model.partition(":")
        self._litellm = (kind, name) if kind in _LITELLM else None
        if self._litellm is None:
            from swe_memory.claude_client import provider_of

            provider_of(model)
        elif not name or find_spec("litellm") is None or self.settings.spec:
            what = "names no model" if not name else "needs litellm" if find_spec("litellm") is None else "takes no settings of Claude's"
            raise UsageError(
                f"{model!r} {what}", "Write it as in litellm:openai/gpt-5, and install litellm with: pip install 'swe-memory[harness]'"
            )
        self._claude = claude
        self._lock = threading.Lock()

    def check(self, limits: Limits) -> None:
        """Raises UsageError for limits that cannot be kept: dollars, where the model's price is not known."""
        from swe_memory.pricing import priced

        if limits.cost is not None and not priced(self.model):
            raise UsageError(
                f"an attempt's limit in dollars cannot be kept for {self.model!r}: its price is not known here",
                "Limit calls or tokens instead.",
            )

    def connect(self, limiter: RateLimiter | None = None) -> None:
        """Get ready to ask: once for all attempts, which share one client and its ``limiter``. Raises UsageError where there is no key, or
        nobody to ask."""
        load_mini()
        if self._litellm:
            from harness.agents.litellm_model import check_provider

            check_provider(self._litellm[1])
            return
        from harness.agents.claude_model import transport

        with self._lock:
            if self._claude is None:
                self._claude = transport(self.model, self.settings.max_tokens or MAX_TOKENS, self.settings.effort, limiter)

    def run(self, work: Assignment, environment: Environment) -> Trajectory:
        """Try to resolve the issue; see :class:`harness.agents.Agent`.

        Exit status: mini-SWE-agent's (``Submitted``, ``LimitsExceeded``, ``RepeatedFormatError``), that of another limit, or ``ContextWindowExceeded``. The
        patch is what was submitted, "" where nothing was. Raises InfraError where the API or the environment failed, ModelCallError where no call can work.
        """
        self.check(work.limits)
        self.connect()
        from minisweagent.agents.default import DefaultAgent

        from harness.agents.mini_environment import MiniEnvironment

        config = swebench_config(self._litellm[0] if self._litellm else "")
        place = _place(environment)
        model = self._model(config["model"], work.meter)
        around = MiniEnvironment(environment, work.limits, work.meter, place)
        agent = DefaultAgent(model, around, **agent_config(config["agent"], work.limits, place))
        ending = agent.run(work.issue.text, memory=work.memory, testbed=place)
        work.notes.extend(dict.fromkeys(getattr(model, "notes", ())))
        patch: str | None = str(ending.get("submission") or "")
        if around.cut_off:
            work.notes.append(SUBMISSION_CUT)
            patch = None
        spent = work.meter.spent
        document = agent.serialize(
            {"info": {"model_stats": {"instance_cost": spent.cost, "api_calls": spent.calls}}, "instance_id": work.issue.id}
        )
        places = [place, *((str(work.workdir), str(work.workdir.resolve())) if work.workdir else ())]
        return _recorded(
            _without_paths(_without_times(document), places), patch=patch, issue_id=work.issue.id, agent=self.name, cost=spent.cost
        )

    def _model(self, config: Mapping[str, Any], meter: Meter) -> Any:
        if self._litellm:
            from harness.agents.litellm_model import LitellmModel

            return LitellmModel(*self._litellm, meter, config)
        from harness.agents.claude_model import ClaudeModel

        own: dict[str, Any] = {"model_name": self.model, "thinking": self.settings.thinking}
        if self.settings.max_tokens:
            own["max_tokens"] = self.settings.max_tokens
        return ClaudeModel(claude=self._claude, meter=meter, **{**config, **own})


def _place(environment: Environment) -> str:
    """Where the environment's commands run. The templates speak of /testbed, which is true in SWE-bench's images alone."""
    found = environment.execute("pwd")
    lines = found.output.split("\n")
    return lines[-2] if found.returncode == 0 and len(lines) > 1 and lines[-2].startswith("/") else TESTBED


def _recorded(document: Mapping[str, Any], **more: Any) -> Recorded:
    """The trajectory that our reader finds in the document, with the document."""
    from swe_memory.trajectories import load_trajectory

    read = load_trajectory(document)
    return replace(Recorded(**{field.name: getattr(read, field.name) for field in fields(read)}, document=document), **more)


def _without_times(document: dict[str, Any]) -> dict[str, Any]:
    """The same attempt leaves the same document: when each message was made is told by the run's journal."""
    for message in document["messages"]:
        message.get("extra", {}).pop("timestamp", None)
    return document


def _without_paths(value: Any, places: Iterable[str]) -> Any:
    """The working copy's path, which differs from run to run and says nothing, written as /testbed."""
    names = sorted(set(places) - {TESTBED}, key=len, reverse=True)

    def clean(part: Any) -> Any:
        if isinstance(part, str):
            for name in names:
                part = part.replace(name, TESTBED)
            return part
        if isinstance(part, Mapping):
            return {key: clean(inner) for key, inner in part.items()}
        return [clean(inner) for inner in part] if isinstance(part, list | tuple) else part

    return clean(value)
