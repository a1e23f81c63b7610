"""What mini-SWE-agent is run with: the installed package, loaded without a trace, its own SWE-bench configuration, and the settings of our ``mini``."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from swe_memory.errors import UsageError

if TYPE_CHECKING:
    from harness.metering import Limits
    from swe_memory.claude import Effort

TESTBED = "/testbed"
"""Where its templates say that the repository is."""

MEMORY = "{% if memory %}\n\n{{ memory }}{% endif %}"
"""What its system template ends with: a variable, so that nothing in a memory is ever taken for a template."""

MAX_TOKENS = 16_384
"""Longest reply of Claude's, thinking included. A command is short, but one that writes a file is as long as the file."""

_FILES = {"litellm_textbased": "swebench_backticks.yaml"}
_THINKING = ("adaptive", "between_tools", "disabled")
_LEAST_THINKING = 1024  # tokens; the API takes no smaller budget
_loading = threading.Lock()


@dataclass(frozen=True, slots=True)
class MiniSettings:
    """``thinking`` is the API's setting, None for the model's own default; so are ``effort`` and, for the longest reply in tokens, ``max_tokens``."""

    thinking: Mapping[str, Any] | None = None
    effort: Effort | None = None
    max_tokens: int | None = None
    spec: str = ""

    @classmethod
    def parse(cls, text: str) -> MiniSettings:
        """The settings of ``thinking=adaptive,effort=high,max-tokens=32000``; ``spec`` is their one spelling. Raises UsageError."""
        from swe_memory.claude import Effort

        given: dict[str, str] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in _SETTINGS or not value:
                raise UsageError(f"the agent mini has no setting {part!r}", f"Its settings: {', '.join(_SETTINGS.values())}.")
            if name in given:
                raise UsageError(f"the agent mini is given {name} twice", "Leave one out.")
            given[name] = value
        max_tokens = _tokens(given, "max-tokens", 1)
        thinking: Mapping[str, Any] | None = None
        if (value := given.get("thinking", "")) in _THINKING:
            thinking = {"type": value}
        elif value:
            budget = _tokens(given, "thinking", _LEAST_THINKING)
            if budget is not None and budget >= (longest := max_tokens or MAX_TOKENS):
                raise UsageError(f"thinking={budget} leaves no room in max-tokens={longest}", "Give more max-tokens, or less thinking.")
            thinking = {"type": "enabled", "budget_tokens": budget}
        effort = given.get("effort")
        if effort is not None and effort not in get_args(Effort):
            raise UsageError(f"effort={effort} is none of the API's", f"Choose one of {', '.join(get_args(Effort))}.")
        spec = ",".join(f"{name}={given[name]}" for name in _SETTINGS if name in given)
        return cls(thinking, effort, max_tokens, spec)  # type: ignore[arg-type]


_SETTINGS = {
    "thinking": f"thinking={'|'.join(_THINKING)}|TOKENS",
    "effort": "effort=low|medium|high|xhigh|max",
    "max-tokens": "max-tokens=TOKENS",
}


def _tokens(given: Mapping[str, str], name: str, least: int) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not (text.isascii() and text.isdecimal() and least <= int(text) < 10**7):
        raise UsageError(f"{name}={text} is not a number of tokens from {least}", f"Write {_SETTINGS[name]}.")
    given[name] = str(int(text))  # type: ignore[index]
    return int(text)


def load_mini() -> None:
    """Import mini-SWE-agent so that it prints nothing, makes no folder of its own and reads no file of settings, keys among them."""
    with _loading, tempfile.TemporaryDirectory() as nowhere:
        if "minisweagent" in sys.modules:
            return
        own = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": nowhere}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            import minisweagent  # noqa: F401
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@cache
def swebench_config(kind: str = "") -> Mapping[str, Any]:
    """mini-SWE-agent's own configuration for SWE-bench: ``agent``, ``environment``, ``model``. ``kind`` is its model class, where that has one of its own."""
    import yaml

    load_mini()
    from minisweagent.config import builtin_config_dir

    path = builtin_config_dir / "benchmarks" / _FILES.get(kind, "swebench.yaml")
    return yaml.safe_load(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def agent_config(config: Mapping[str, Any], limits: Limits, place: str) -> dict[str, Any]:
    """The arguments of its agent, with room for memory. ``place`` is where the repository is; the templates take it as the variable ``testbed``.

    Dollars, tokens and seconds are the meter's business, whose exit statuses tell them apart.
    """
    # A template loses the newline at its end when it is filled in; in the middle it would stay.
    system = str(config["system_template"]).removesuffix("\n") + MEMORY
    instance = str(config["instance_template"])
    if place != TESTBED:
        system, instance = (text.replace(TESTBED, "{{ testbed }}") for text in (system, instance))
    return {**config, "system_template": system, "instance_template": instance, "step_limit": limits.calls, "cost_limit": 0.0}
