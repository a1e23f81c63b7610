"""Any model that litellm knows, by mini-SWE-agent's own model classes, with the attempt's meter around them.

litellm is imported here and nowhere else: it takes seconds and 200 MB. It counts and prices by its own list.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from minisweagent.exceptions import FormatError, InterruptAgentFlow

from harness.agents.claude_model import CONTEXT_FULL, check, end
from harness.metering import STATUS, Meter
from swe_memory.claude import ModelCallError
from swe_memory.errors import InfraError, UsageError
from swe_memory.records import Usage

_STOP = (
    "AuthenticationError",
    "PermissionDeniedError",
    "NotFoundError",
    "UnsupportedParamsError",
    "BudgetExceededError",
    "LiteLLMUnknownProvider",
)
_TRY_SECONDS = 600.0


class LitellmModel:
    """mini-SWE-agent's model class ``kind`` for the model ``name``, counted by ``meter``. ``config`` is the model part of mini-SWE-agent's configuration.

    A call whose price litellm does not know has the cost None; mini-SWE-agent's refusal to go on without a price is off, since the meter keeps the limits.
    """

    def __init__(self, kind: str, name: str, meter: Meter, config: Mapping[str, Any]) -> None:
        # Its price list is read from its own files, not from the network.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm
        from minisweagent.models import get_model

        litellm.suppress_debug_info = True  # it prints to the terminal where a call fails
        settings = {**config, "model_name": name, "model_class": kind, "cost_tracking": "ignore_errors"}
        self._model: Any = get_model(name, settings)
        self._meter = meter
        self.config = self._model.config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        """The next message, as mini-SWE-agent's class gives it; errors as :meth:`harness.agents.claude_model.ClaudeModel.query` has them."""
        check(self._meter)
        left = self._meter.seconds_left
        try:
            message: dict[str, Any] = self._model.query(messages, timeout=_TRY_SECONDS if left is None else min(left, _TRY_SECONDS))
        except FormatError as error:
            self._count(error.messages[0])
            raise
        except InterruptAgentFlow:
            raise
        except Exception as error:
            self._explain(error)
        self._count(message)
        return message

    def _count(self, message: dict[str, Any]) -> None:
        extra = message.setdefault("extra", {})
        cost = extra.get("cost") or None  # an unknown price is 0 there
        extra["cost_known"] = cost is not None
        self._meter.add(Usage(1, *tokens(message), cost))

    def _explain(self, error: Exception) -> None:
        """Raise what an error means for the attempt; see the class of it in litellm.exceptions."""
        import litellm

        said = f"{type(error).__name__}: {_public(str(error))}"
        if isinstance(error, litellm.exceptions.ContextWindowExceededError):
            end(CONTEXT_FULL, said)
        if isinstance(error, litellm.exceptions.Timeout) and self._meter.seconds_left == 0.0:
            end(STATUS["seconds"], said)
        # What mini-SWE-agent raises itself is its limit over all attempts, which only the user sets.
        if type(error).__name__ in _STOP or type(error) is RuntimeError:
            raise ModelCallError(
                f"{self.config.model_name} cannot be asked: {said}", "Check the model's name and its key.", stop=True
            ) from error
        raise InfraError(
            f"{self.config.model_name} did not answer: {said}", "See its provider's status, then go on with --resume."
        ) from error


def check_provider(name: str) -> None:
    """Raises UsageError for a model whose name says no provider that litellm knows: mini-SWE-agent's class would ask for it again and again."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    try:
        litellm.get_llm_provider(name)
    except litellm.exceptions.BadRequestError as error:
        raise UsageError(
            f"litellm knows no provider of the model {name!r}", "Write it as PROVIDER/NAME, as in litellm:openai/gpt-5."
        ) from error


def tokens(message: Mapping[str, Any]) -> tuple[int, int]:
    """(input, output) tokens of the call behind a message; 0 where it does not say."""
    response = message.get("extra", {}).get("response")
    usage = message.get("usage") or (response.get("usage") if isinstance(response, Mapping) else None)
    if not isinstance(usage, Mapping):
        return 0, 0
    into, out = (usage.get(name) or usage.get(other) or 0 for name, other in _COUNTS)
    return int(into), int(out)


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))


def _public(text: str) -> str:
    """A provider's words, short, on one line, without secrets."""
    from swe_memory.safety import clean, redact

    return " ".join(redact(clean(text))[0].split())[:400]
