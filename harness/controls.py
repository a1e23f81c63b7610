"""Placebos: what an attempt is shown instead of what memory recalled, so that the effect of what memory says can be told from that of something being said.

All are yoked to the memory arm: on the same issues, from the same frozen bank, with text exactly where memory had text. *derangement* exchanges the items
between issues (real lessons, wrong issue), *preamble* keeps the frame and takes the lesson out, *neutral* puts advice of the same length in its place that
says nothing.

Pure, given an open bank that nobody writes to: the same recalls, issues, bank version and seed give the same bytes, in whatever order they come.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import prompts
from swe_memory.errors import UsageError
from swe_memory.ranking import RankingSettings, normalise
from swe_memory.records import Issue, MemoryItem, Provenance, Recall
from swe_memory.render import frame, render

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank

Items = tuple[MemoryItem, ...]


# -- derangement -----------------------------------------------------------------------------------------------------------------------------


def derangement(
    recalls: Mapping[str, Recall], issues: Mapping[str, Issue], bank: MemoryBank, *, settings: RankingSettings, seed: int
) -> dict[str, Recall]:
    """What was recalled, exchanged between the issues of each repository, so that nobody has its own.

    ``recalls``: by issue id, what the memory arm recalled with ``settings``; ``issues``: at least those issues. What an issue was given (one item, or
    several where the settings ask for it) goes to another as a whole. Nobody gets an item that it was given itself, by id or by its words, nor one of a past
    issue that one of its own items is from, unless there is no other way; and every guard of recall holds: rule 1 and the switches of ``settings``.

    As many issues as possible take part in the exchange (a maximum matching; which one, the seed decides). Who finds no partner gets other active items of
    the bank that the guards allow, first from its repository; who may have none at all, neutral text of its own recall's length. ``reasons`` say which.
    """
    shown = {name: recalls[name] for name in sorted(recalls) if recalls[name].prompt}
    given = {name: _items(recall) for name, recall in shown.items()}
    allowed: dict[str, frozenset[str]] = {}
    pools: dict[int, list[MemoryItem]] = {}
    for version in sorted({recall.bank_version for recall in shown.values()}):
        asked = [issues[name] for name, recall in shown.items() if recall.bank_version == version]
        allowed |= bank.allowed(asked, at=version, settings=settings)
        pools[version] = bank.items(at=version, status="active")
    partner: dict[str, str] = {}
    for repo in sorted({issues[name].repo for name in shown}):
        partner |= _exchange({name: given[name] for name in shown if issues[name].repo == repo}, allowed, seed)

    def swapped(name: str) -> Recall:
        recall, own = recalls[name], given[name]
        if name in partner:
            items = given[partner[name]]
            reasons = [f"derangement: {_what(items)} recalled for {partner[name]}"]
        else:
            items = _others(issues[name], own, pools[recall.bank_version], allowed[name], seed)
            why = f"no issue of {issues[name].repo} is left whose items this one may have and was not given itself"
            if not items:
                said = f"derangement: {why}, nor is there another item in the bank: neutral text of the same length instead"
                return _without(recall, _neutral_prompt(name, recall, seed), said)
            where = ", ".join(sorted({item.repo for item in items}))
            reasons = [f"derangement: {_what(items)} of the bank, learned in {where}, by chance: {why}"]
        if _past(items) & _past(own):
            reasons.append("derangement: from the same past issue as what was recalled, which could not be avoided")
        return replace(_without(recall, render(items), *reasons), item=items[0], items=items)

    return {name: swapped(name) if name in shown else _nothing(recall, "derangement") for name, recall in recalls.items()}


def _exchange(given: Mapping[str, Items], allowed: Mapping[str, frozenset[str]], seed: int) -> dict[str, str]:
    """Issue -> the issue whose items it gets. Each gives at most once; as many as possible get, and as few as possible from a past issue of their own.

    An assignment of least cost: a random cost for each pair, so that the seed decides among what is equally good, plus one that outweighs all of these for a
    shared past issue, plus one that outweighs everything for a pair that must not be. Whole numbers below 2**53, so that sums of floats are exact.
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    names = sorted(given)
    chance = 1 << 16
    shared = len(names) * chance
    never = len(names) * (shared + chance)
    words = {name: _words(given[name]) for name in names}
    past = {name: _past(given[name]) for name in names}
    costs = np.full((len(names), len(names)), never, dtype=np.float64)
    for row, to in enumerate(names):
        for column, of in enumerate(names):
            if given[of] and words[of].isdisjoint(words[to]) and all(item.id in allowed[to] for item in given[of]):
                costs[row, column] = _drawn(seed, to, of) % chance + (0 if past[of].isdisjoint(past[to]) else shared)
    rows, columns = linear_sum_assignment(costs)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return {names[row]: names[column] for row, column in pairs if costs[row, column] < never}


def _others(issue: Issue, own: Items, pool: Sequence[MemoryItem], allowed: frozenset[str], seed: int) -> Items:
    """As many items as the issue was given, or as there are, that it may have and that say something else; of other past issues first, then of its
    repository first, then by chance."""
    taken, past = _words(own), _past(own)
    free = [item for item in pool if item.id in allowed]
    free.sort(key=lambda item: (not past.isdisjoint(_past((item,))), item.repo != issue.repo, _drawn(seed, issue.id, item.id), item.id))
    chosen: list[MemoryItem] = []
    for item in free:
        if len(chosen) == max(1, len(own)):
            break
        words = _words((item,))
        if words.isdisjoint(taken):
            chosen.append(item)
            taken |= words
    return tuple(chosen)


def _words(items: Items) -> set[str]:
    """What makes two items one: not the id, which also says where an item comes from. Two lessons in the same words are one to whoever reads them."""
    return {normalise(item.text) for item in items}


def _past(items: Items) -> set[tuple[str, str]]:
    """The past issues that items are from. All attempts at one issue count as one experience here."""
    return {(item.repo, item.provenance.issue_id) for item in items}


def _items(recall: Recall) -> Items:
    return recall.items or ((recall.item,) if recall.item else ())


def _what(items: Items) -> str:
    return "the item" if len(items) == 1 else f"the {len(items)} items"


# -- preamble and neutral --------------------------------------------------------------------------------------------------------------------


def preamble(recalls: Mapping[str, Recall]) -> dict[str, Recall]:
    """Where the memory arm had text: the same heading and introduction, and no note."""
    said = "preamble: the frame of a memory block with nothing in it"
    return {name: _without(recall, frame(), said) if recall.prompt else _nothing(recall, "preamble") for name, recall in recalls.items()}


def neutral(recalls: Mapping[str, Recall], *, seed: int) -> dict[str, Recall]:
    """Where the memory arm had text: a block of the same length whose notes are generic advice (prompts/neutral.md), drawn by seed and issue.

    As many notes as memory's block shows, of the same shape, and with the same line on where they come from: only the words of the lesson differ.
    """
    said = f"neutral: generic advice ({prompts.load('neutral').ref}) of the length of what was recalled"
    return {
        name: _without(recall, _neutral_prompt(name, recall, seed), said) if recall.prompt else _nothing(recall, "neutral")
        for name, recall in recalls.items()
    }


def _neutral_prompt(issue_id: str, recall: Recall, seed: int) -> str:
    """A block as long as the recall's own or a few characters shorter; the frame alone where that has no room for a note."""
    items, advice = _noted(recall), _Advice(f"{seed}/{issue_id}")
    notes: list[MemoryItem] = []
    owed = 0  # characters that the notes so far are shorter than those they stand for
    for item in items:
        title = advice.one(len(item.title)) if item.description or item.content else advice.fill(len(item.title))
        description = ""
        if item.description:
            size = len(item.title) + len(item.description) - len(title)
            description = advice.fill(size, cut=not item.content)
        owed += len(item.title) + len(item.description) - len(title) - len(description)
        content = advice.fill(len(item.content) + owed) if item.content and len(notes) + 1 < len(items) else ""
        owed += len(item.content) - len(content)
        notes.append(replace(item, title=title, description=description, content=content))
    # The last one's content takes what is left to the length of the whole.
    size = len(recall.prompt)
    room = size - len(render([*notes[:-1], replace(notes[-1], content="-")], max_chars=10**6)) + 1
    notes[-1] = replace(notes[-1], content=advice.fill(room))
    try:
        return render(notes, max_chars=size)
    except UsageError:  # text that is no block: shorter than the frame
        return frame()


def _noted(recall: Recall) -> Items:
    """The items that the recall's block shows: it leaves those out, from the end, that do not fit. One made up where it has none."""
    items = _items(recall)
    for count in range(1, len(items)):
        if render(items[:count]) == recall.prompt:
            return items[:count]
    return items or (_STAND_IN,)


_STAND_IN = MemoryItem(
    "", "A lesson from another issue", "", "-", "", "success", "general", "", Provenance("", "", "", "rules", "resolved", "")
)


class _Advice:
    """The sentences of prompts/neutral.md in an order that follows from ``draw``, none a second time before all were used."""

    def __init__(self, draw: str) -> None:
        self._draw = draw
        self._round = 0
        self._left: list[str] = []

    def one(self, size: int) -> str:
        """One sentence without its full stop, as long as most of ``size`` characters; where there is none, as :meth:`fill`."""
        for sentence in self._sentences():
            if 0.6 * size <= len(sentence) - 1 <= size:
                self._left.remove(sentence)
                return sentence.rstrip(".")
        return self.fill(size)

    def fill(self, size: int, *, cut: bool = True) -> str:
        """Sentences of ``size`` characters together, or a few less: the last is cut between two words where none is as long as what is left.

        Without ``cut`` they are whole, and may be shorter by a sentence; only where no sentence is short enough is one cut.
        """
        text = ""
        while len(text) < size - 2:
            room = size - len(text) - bool(text)
            whole = next((s for s in self._sentences() if len(s) <= room and not (cut and 2 < room - len(s) < _SHORTEST)), "")
            used = whole or max(self._left, key=lambda sentence: len(_cut(sentence, room)))
            if not whole and (not _cut(used, room) or (text and not cut)):
                break
            self._left.remove(used)
            text = f"{text} {whole or _cut(used, room)}".lstrip()
            if not whole:
                break
        return text or "…"[: max(0, size)]

    def _sentences(self) -> list[str]:
        if not self._left:
            self._round += 1
            every = prompts.load("neutral").render().split("\n")
            self._left = sorted(every, key=lambda sentence: (_drawn(self._draw, self._round, sentence), sentence))
        return self._left


# What a whole sentence leaves is nothing, or enough for another or a cut one.
_SHORTEST = 14


def _cut(sentence: str, size: int) -> str:
    """The beginning of a sentence up to a word's end, with an ellipsis, at most ``size`` characters; "" where not one word has room."""
    end = sentence.rfind(" ", 0, size)
    return sentence[:end].rstrip(",") + "…" if end > 0 else ""


# -- both ------------------------------------------------------------------------------------------------------------------------------------


def _without(recall: Recall, prompt: str, *reasons: str) -> Recall:
    """What a control shows in place of ``recall``, without an item. Its score is 0: nothing was looked for."""
    return Recall(recall.issue_id, None, 0.0, recall.bank_version, reasons, prompt, settings=recall.settings)


def _nothing(recall: Recall, control: str) -> Recall:
    return _without(recall, "", f"{control}: memory recalled nothing here, so nothing is shown")


def _drawn(*parts: object) -> int:
    """A number that follows from ``parts`` alone: from neither Python's version nor what else there is."""
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()[:8])
