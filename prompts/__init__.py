"""Every prompt of the product, one Markdown file each, and the one way to read them.

A prompt file starts with YAML front matter (``id``, equal to the file's name without ``.md``, and a whole-number ``version``), then its
Jinja template. A file for a chat has two parts, each after a line of its own: ``<!-- system -->`` and ``<!-- user -->``; a file without
these lines is one part.

What a template takes from outside (an issue, an attempt, a past item) is a *variable* and goes through the filter ``data``, which bounds
and fences it::

    {{ issue | data("issue", 20000) }}

The fence's tag carries a code made from a hash of the text within. A text cannot hold the hash of itself, so no text can close its own
fence, and the same text gives the same bytes each time.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

_FRONT = re.compile(r"\A---\n(?P<front>.*?\n)---\n(?P<body>.*)\Z", re.DOTALL)
_PART = re.compile(r"^<!-- (system|user) -->[ \t]*\n", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class PromptError(Exception):
    """A prompt file is missing or broken, or a template was not given what it needs: the installation's fault, never the user's."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file. ``system`` is "" for a file of one part; ``user`` is then the whole body."""

    id: str
    version: int
    system: str
    user: str

    @property
    def ref(self) -> str:
        """``id@version``: what provenance keeps."""
        return f"{self.id}@{self.version}"

    def render(self, **variables: object) -> str:
        """The user part (the whole text of a file of one part). Raises PromptError where a variable is missing."""
        return _render(self.ref, self.user, variables)

    def messages(self, **variables: object) -> tuple[str, str]:
        """``(system, user)``, both rendered. Raises PromptError where a variable is missing."""
        return _render(self.ref, self.system, variables), _render(self.ref, self.user, variables)


@cache
def load(id: str) -> Prompt:
    """The prompt named ``id``, read once. Raises PromptError, with the file's name, where it is missing or broken."""
    if not _NAME.match(id):
        raise PromptError(f"{id!r} is not the name of a prompt")
    try:
        source = (resources.files(__name__) / f"{id}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PromptError(f"prompt {id!r} is missing from the installation (prompts/{id}.md)") from None
    return parse(id, source)


def parse(id: str, source: str) -> Prompt:
    """A prompt from the text of its file. Raises PromptError where front matter, parts or template are broken."""
    import yaml
    from jinja2 import TemplateSyntaxError

    where = f"prompts/{id}.md"
    match = _FRONT.match(source)
    if match is None:
        raise PromptError(f"{where}: no front matter between two lines of ---")
    try:
        front = yaml.safe_load(match["front"])
    except yaml.YAMLError as problem:
        raise PromptError(f"{where}: front matter is not YAML: {problem}") from None
    if not isinstance(front, dict) or front.get("id") != id:
        raise PromptError(f"{where}: front matter must say id: {id}")
    version = front.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PromptError(f"{where}: front matter must give version as a whole number from 1")
    system, user = _parts(where, match["body"])
    for part in (system, user):
        try:
            _template(part)
        except TemplateSyntaxError as problem:
            raise PromptError(f"{where}: template is broken: {problem}") from None
    return Prompt(id, version, system, user)


def fence(text: str, name: str, limit: int) -> str:
    """``text`` between two tags that it cannot forge, cut in the middle to ``limit`` characters (tags not counted), the cut marked."""
    body = _bounded(text, limit)
    code = hashlib.sha256(f"{name}\n{body}".encode("utf-8", "replace")).hexdigest()[:16]
    return f"<{name}-{code}>\n{body}\n</{name}-{code}>"


def _bounded(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    mark = f"\n[... {len(text) - limit} or more characters left out ...]\n"
    keep = max(0, limit - len(mark))
    head = keep * 2 // 3
    return text[:head] + mark + text[len(text) - (keep - head) :]


def _parts(where: str, body: str) -> tuple[str, str]:
    pieces = _PART.split(body)
    if len(pieces) == 1:
        return "", body.strip("\n")
    before, names, texts = pieces[0], pieces[1::2], pieces[2::2]
    if names != ["system", "user"] or before.strip():
        raise PromptError(f"{where}: parts must be <!-- system --> then <!-- user -->, with nothing before them")
    return texts[0].strip("\n"), texts[1].strip("\n")


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    # No autoescape: this is text for a model, not HTML, and "&lt;" would change the code that it quotes.
    environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data"] = fence
    return environment


@lru_cache(maxsize=64)  # compiling takes 3 to 9 ms, filling in .03; there are far fewer prompts
def _template(source: str) -> Template:
    return _environment().from_string(source)


def _render(ref: str, template: str, variables: dict[str, object]) -> str:
    from jinja2 import TemplateError

    try:
        return _template(template).render(variables)
    except TemplateError as problem:
        raise PromptError(f"prompt {ref} cannot be filled in: {problem}") from None


__all__ = ["Prompt", "PromptError", "fence", "load", "parse"]
