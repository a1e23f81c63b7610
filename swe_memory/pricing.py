"""What a model's tokens cost, from the price list that the ``litellm`` package maintains and ships as a data file.

The list is read as a file: litellm itself is never imported (that costs seconds and a network call). Where the package is not installed, or
does not list a model as one of Anthropic's, there is no price, and costs are None: a price is never guessed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_LIST = "model_prices_and_context_window_backup.json"
_TIER = re.compile(r"input_cost_per_token(_above_(\d+)(k?)_tokens)\Z")


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for one token of each sort. ``cache_write`` is for the five-minute cache, ``cache_write_1h`` for the hour's."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_1h: float


@dataclass(frozen=True, slots=True)
class Price:
    """A model's rates: ``tiers`` are (prompt size in tokens above which they hold, rates), smallest first, the first from -1.

    ``regions`` are factors for the place where a request ran; ``source`` names the list and its version.
    """

    model: str
    source: str
    tiers: tuple[tuple[int, Rates], ...]
    regions: tuple[tuple[str, float], ...] = ()

    def cost(
        self, *, input: int, output: int, cache_read: int = 0, cache_write: int = 0, cache_write_1h: int = 0, region: str | None = None
    ) -> float:
        """US dollars for one request. The whole prompt, cached or not, decides which tier all of its tokens are billed at."""
        prompt = input + cache_read + cache_write + cache_write_1h
        rates = [rates for above, rates in self.tiers if prompt > above][-1]
        dollars = (
            input * rates.input
            + output * rates.output
            + cache_read * rates.cache_read
            + cache_write * rates.cache_write
            + cache_write_1h * rates.cache_write_1h
        )
        return dollars * dict(self.regions).get(region or "", 1.0)


def price(model: str, region: str = "") -> Price | None:
    """The price of one of Anthropic's models by its API name, or None where no maintained list on this machine has it.

    ``bedrock:NAME`` and ``vertex:NAME`` are models at these two; ``region`` is where they run, which has a price of its own at some places of Bedrock. On
    Vertex, costs in any region but ``global`` are those of the region "regional" (see :meth:`Price.cost`).
    """
    prices = _prices()
    start, _, name = model.partition(":")
    if start == "bedrock" and region and (own := prices.get(f"bedrock:bedrock/{region}/{name}")):
        return own
    return prices.get(model)


def parse(entries: dict[str, Any], source: str) -> dict[str, Price]:
    """Prices from the content of the list, by model name; aliases are followed.

    Anthropic's own are under their names, those at Bedrock and Vertex under ``bedrock:NAME`` and ``vertex:NAME``. Entries of other sellers, and those that
    lack a rate, are left out.
    """
    prices: dict[str, Price] = {}
    for model, entry in entries.items():
        target = entry
        if isinstance(entry, dict) and isinstance(entry.get("alias_of"), str):
            target = entries.get(entry["alias_of"])
        if not isinstance(target, dict) or (name := _name(model, target.get("litellm_provider"))) is None:
            continue
        if tiers := _tiers(target):
            prices[name] = Price(name, source, tiers, _regions(target))
    return prices


def _name(model: str, seller: object) -> str | None:
    """What a model is called here; None for one of a seller that cannot be asked from here."""
    if seller == "anthropic":
        return model
    if seller in ("bedrock", "bedrock_converse") and "anthropic." in model:
        return f"bedrock:{model}"
    return f"vertex:{model.removeprefix('vertex_ai/')}" if seller == "vertex_ai-anthropic_models" else None


def priced(model: str) -> bool:
    """Whether what a model's calls cost will be known: of Claude's, as :func:`price` has it; of ``litellm:NAME`` (or ``litellm_response:``, ...), whatever
    seller's it is, by its name there with or without the seller's in front."""
    start, _, name = model.partition(":")
    if not start.startswith("litellm"):
        return price(model) is not None
    entries, _ = _entries()
    found = (entries.get(name) for name in (name, name.partition("/")[2]))
    return any(isinstance(entry, dict) and _rates(entry, "", None) is not None for entry in found)


@cache
def _prices() -> dict[str, Price]:
    return parse(*_entries())


def _entries() -> tuple[dict[str, Any], str]:
    """The list's content, {} where there is none that can be read, and what it is called."""
    found = _find()
    if found is None:
        return {}, ""
    path, source = found
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}, ""
    return (entries, source) if isinstance(entries, dict) else ({}, "")


def _find() -> tuple[Path, str] | None:
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    # Finding the spec of a top-level package does not run it.
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / _LIST
    try:
        return path, f"litellm {version('litellm')}"
    except PackageNotFoundError:
        return None


def _tiers(entry: dict[str, Any]) -> tuple[tuple[int, Rates], ...]:
    base = _rates(entry, "", None)
    if base is None:
        return ()
    tiers = [(-1, base)]
    for key in entry:
        match = _TIER.match(key)
        if match:
            rates = _rates(entry, match[1], base)
            if rates is not None:
                tiers.append((int(match[2]) * (1000 if match[3] else 1), rates))
    return tuple(sorted(tiers, key=lambda tier: tier[0]))


def _rates(entry: dict[str, Any], suffix: str, base: Rates | None) -> Rates | None:
    def rate(key: str) -> float | None:
        value = entry.get(key + suffix)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None

    def first(*choices: float | None) -> float:
        return next((choice for choice in choices if choice is not None), 0.0)

    into, out = rate("input_cost_per_token"), rate("output_cost_per_token")
    read, write, hour = (
        rate(f"cache_{sort}") for sort in ("read_input_token_cost", "creation_input_token_cost", "creation_input_token_cost_above_1hr")
    )
    # As the list's own reader has it: a higher tier without a price of its own keeps the lower's; a sort of token that has none is billed as input.
    if base is None:
        if into is None or out is None:
            return None
        return Rates(into, out, first(read, into), first(write, into), first(hour, write, into))
    return Rates(
        first(into, base.input),
        first(out, base.output),
        first(read, base.cache_read),
        first(write, base.cache_write),
        first(hour, base.cache_write_1h),
    )


def _regions(entry: dict[str, Any]) -> tuple[tuple[str, float], ...]:
    uplift = entry.get("regional_endpoint_uplift_multiplier")
    if isinstance(uplift, int | float) and not isinstance(uplift, bool):
        return (("regional", float(uplift)),)
    factors = entry.get("provider_specific_entry")
    if not isinstance(factors, dict):
        return ()
    # The same table also holds factors for things that are not places ("fast"), which never match a region's name.
    return tuple(sorted((str(name), float(factor)) for name, factor in factors.items() if isinstance(factor, int | float)))
