"""Which client of the SDK speaks for a model's name, and what its errors mean in words a user can act on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from swe_memory.errors import ModelError, UsageError
from swe_memory.records import Usage
from swe_memory.wire import check_address

if TYPE_CHECKING:
    import anthropic

    Client = anthropic.Anthropic | anthropic.AnthropicBedrock | anthropic.AnthropicVertex
    Watch = Callable[[anthropic.APIRequest, anthropic.CallNext], anthropic.APIResponse[object]]

DEFAULT_MODEL = "claude-haiku-5-5"

Provider = Literal["anthropic", "bedrock", "vertex"]

_CREDENTIALS: dict[Provider, str] = {
    "anthropic": "set ANTHROPIC_API_KEY to a valid key",
    "bedrock": "set AWS_BEARER_TOKEN_BEDROCK, or credentials where boto3 finds them (pip install 'anthropic[bedrock]')",
    "vertex": "log in with `gcloud auth application-default login` and set ANTHROPIC_VERTEX_PROJECT_ID (pip install 'anthropic[vertex]')",
}
_ADDRESS: dict[Provider, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "bedrock": "ANTHROPIC_BEDROCK_BASE_URL",
    "vertex": "ANTHROPIC_VERTEX_BASE_URL",
}
# How the API and its resellers say that a question does not fit. A reply that hits the limit while it is written has a stop reason of its own.
_TOO_LONG = re.compile(
    r"(prompt|input) is too long|exceeds? (the )?(context|model'?s? context)|context (window|length|limit)", re.IGNORECASE
)
# How it says, with the status of a wrong request, that there is no money: the account's credit or its limit is used up.
_NO_MONEY = re.compile(r"credit balance|usage limits?\b|\bbilling\b", re.IGNORECASE)
_SECRETS = ("api_key", "auth_token", "aws_secret_key", "aws_session_token", "access_token")


class ModelCallError(ModelError):
    """The model could not be asked.

    ``retryable``: the same call may well work later (overload, rate limit, network). ``stop``: no call of this run can work until somebody
    changes something (key, permission, model name, money). ``usage`` is what was already used for the question that failed, ``status`` the
    HTTP status of the answer, where there was one.
    """

    def __init__(self, what: str, hint: str = "", *, status: int | None = None, retryable: bool = False, stop: bool = False) -> None:
        super().__init__(what, hint)
        self.status = status
        self.retryable = retryable
        self.stop = stop
        self.usage = Usage()


class ContextFull(ModelCallError):
    """The question is longer than the model, or the API, takes: this question's fault alone."""


class OutOfTime(ModelCallError):
    """The time that the caller allowed ran out before there was an answer."""


def provider_of(model: str) -> tuple[Provider, str]:
    """Who is asked, and the name there: ``bedrock:NAME`` and ``vertex:NAME`` are models at those two, every other name is one of the Anthropic API's, or of a
    server that speaks it. Raises UsageError for a name that cannot be one."""
    start, _, rest = model.partition(":")
    if start == "litellm" or not model.strip():
        raise UsageError(
            f"{model!r} is not the name of a Claude model",
            f"Name one such as {DEFAULT_MODEL}, bedrock:NAME or vertex:NAME; models by way of litellm can act as agents, but not judge or distil.",
        )
    if start == "bedrock" and rest:
        return "bedrock", rest
    if start == "vertex" and rest:
        return "vertex", rest
    return "anthropic", model


def region_of(provider: Provider) -> str:
    """The region that a client of this provider will use, where the environment names it; prices depend on it. "" where it does not, or there is none."""
    if provider == "bedrock":
        return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    return os.environ.get("CLOUD_ML_REGION", "") if provider == "vertex" else ""


def connect(provider: Provider, *, api_key: str | None, base_url: str | None, timeout: float, max_retries: int, watch: Watch) -> Client:
    """A client whose every request, retries among them, goes through ``watch``.

    ``api_key`` is the provider's own: an API key, a Bedrock bearer token, a Google access token; None for what the SDK finds by itself, as is ``base_url``.
    Raises UsageError where no request could be made: no key, no region, an address that is none.
    """
    import anthropic

    check_address(base_url or os.environ.get(_ADDRESS[provider]))
    patience = anthropic.Timeout(timeout, connect=min(timeout, 10.0))
    try:
        if provider == "bedrock":
            return anthropic.AnthropicBedrock(
                api_key=api_key, base_url=base_url, timeout=patience, max_retries=max_retries, middleware=[watch]
            )
        if provider == "vertex":
            return anthropic.AnthropicVertex(
                access_token=api_key, base_url=base_url, timeout=patience, max_retries=max_retries, middleware=[watch]
            )
    except ValueError as problem:
        where = "AWS_REGION" if provider == "bedrock" else "CLOUD_ML_REGION (global, or a region)"
        raise UsageError(f"the {provider} client cannot be made: {problem}", f"Set {where}.") from None
    try:
        client = anthropic.Anthropic(api_key=api_key, base_url=base_url, timeout=patience, max_retries=max_retries, middleware=[watch])
    except anthropic.AnthropicError as problem:
        raise UsageError(f"the credentials for the Anthropic API cannot be read: {problem}", "set ANTHROPIC_API_KEY") from None
    if not (client.api_key or client.auth_token or client.credentials):
        client.close()
        raise UsageError(
            "no key for the Anthropic API",
            "set ANTHROPIC_API_KEY; judging and distilling can go by rules instead, without a language model",
        )
    return client


def explain(problem: Exception, client: Client, provider: Provider, model: str) -> ModelCallError:
    """What went wrong with a call, for a user. Whatever is not the SDK's own error is one of a cloud provider's credentials."""
    import anthropic

    url, credentials = client.base_url, _CREDENTIALS[provider]
    if isinstance(problem.__cause__, ModelCallError):  # raised on the way, in the SDK's clothes
        return problem.__cause__
    if isinstance(problem, anthropic.APITimeoutError):
        return ModelCallError(f"{url} did not answer in time", "try again, or raise the time-out", retryable=True)
    if isinstance(problem, anthropic.APIConnectionError):
        cause = public(str(problem.__cause__ or problem), client)
        hint = f"check the network and {_ADDRESS[provider]}, then retry"
        return ModelCallError(f"no connection to {url}: {cause}", hint, retryable=True)
    if not isinstance(problem, anthropic.APIStatusError):
        return ModelCallError(f"the SDK cannot make the call: {public(str(problem), client)}", credentials, stop=True)
    status, said = problem.status_code, public(problem.api_message or str(problem), client)
    at = f"{url} answered {status}" + (f" to request {problem.request_id}" if problem.request_id else "")
    if status == 413 or (status == 400 and _TOO_LONG.search(said)):
        return ContextFull(f"the API refused the request: {at}: {said}", "this attempt cannot be asked about as it is", status=status)
    if status == 401:
        what, hint, stop = "the key was not accepted", credentials, True
    elif status in (402, 403) or (status == 400 and _NO_MONEY.search(said)):
        what, hint, stop = "the key may not do this", "check the workspace's permissions and billing", True
    elif status == 404:
        what, stop = f"model {model!r} was not found", True
        hint = f"choose a model that this key can use, for example {DEFAULT_MODEL}, or check {_ADDRESS[provider]}; other makers' act as litellm:PROVIDER/NAME"
    elif status in (408, 409, 429) or status >= 500:
        what, hint, stop = "the API did not take the call, after retries", "start again later", False
    else:
        what, hint, stop = "the API refused the request", "this attempt cannot be asked about as it is", False
    retryable = status in (408, 409, 429) or status >= 500
    return ModelCallError(f"{what}: {at}: {said}", hint, status=status, retryable=retryable, stop=stop)


def public(text: str, client: Client) -> str:
    """A server's words, short, on one line, and without our key, which a proxy may echo."""
    for secret in (getattr(client, name, None) for name in _SECRETS):
        if secret:
            text = text.replace(secret, "[key]")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:400]
