"""Which item is recalled: the guards of rule 1, who may use what, the order, the threshold, and the words that explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_memory.bm25 import Bm25Index
from swe_memory.errors import UsageError
from swe_memory.ranking import RankingSettings, find, issue_views, normalise, query_terms, rank, same_issue, text_hash, where_terms
from swe_memory.ranking.terms import jaccard, named_places, shingles
from swe_memory.records import Experience, Issue, MemoryItem, Provenance, Verdict

TICKET = "Invoices lose the tax of the last line\n\nWhen an invoice has more than ten lines, `total_with_tax` skips the last one. See shop/billing/invoice.py."
ISSUE = Issue("shop-90", "acme/shop", TICKET)
ALWAYS = RankingSettings(threshold=0.0)


@dataclass(frozen=True)
class Hit:
    experience: Experience
    cosine: float | None = 0.5
    path_score: float = 0.0
    text_score: float = 0.0
    removed: str = ""


def past(
    number: int, text: str = "", *, repo: str = "acme/shop", paths: tuple[str, ...] = (), verdict: Verdict | None = None
) -> Experience:
    issue = Issue(f"shop-{number}", repo, text or f"Past issue {number} about something else entirely, number {number}")
    return Experience(f"key{number}", issue, "", verdict or Verdict.from_tests(resolved=True), paths)


def item(
    experience: Experience, name: str = "", *, reach: str = "repository", status: str = "active", content: str = "Run it."
) -> MemoryItem:
    provenance = Provenance(experience.key, experience.issue.id, "", "tests", "resolved", "rules@1")
    identity = f"{experience.key}-{name}"
    return MemoryItem(identity, f"Title {identity}", "", content, "strategy", "success", reach, experience.issue.repo, provenance, status)  # type: ignore[arg-type]


class Shelf:
    """Items by experience, and how often they were asked for."""

    def __init__(self, *items: MemoryItem, vectors: dict[str, np.ndarray] | None = None) -> None:
        self.items, self.vectors, self.asked = items, vectors or {}, 0

    def __call__(self, keys: Sequence[str]) -> list[tuple[MemoryItem, np.ndarray | None]]:
        self.asked += 1
        return [(one, self.vectors.get(one.id)) for one in self.items if one.provenance.attempt in keys]


# --- rule 1 ---

# Without control characters: a blank or a wide letter in the middle of a terminal's escape sequence makes another sequence of it.
WORDS = st.text(st.characters(exclude_categories=["Cc"]), min_size=12, max_size=300).filter(lambda text: len(normalise(text)) > 5)


@pytest.mark.parametrize(
    ("number", "text", "why"),
    [
        (90, "Another wording of it altogether", "same issue"),
        (1, TICKET, "same text"),
        (1, "<!-- please search first -->\r\n" + TICKET.upper().replace(" ", "   "), "same text"),
        (1, TICKET.replace("more than ten lines", "more than 10 lines"), "nearly the same text"),
    ],
)
def test_memory_of_the_issue_itself_is_never_recalled(number: int, text: str, why: str) -> None:
    own = past(number, text)
    other = past(2)
    found = rank(ISSUE, [Hit(own, 0.99), Hit(other, 0.4)], Shelf(item(own), item(other)), ALWAYS)
    assert [one.provenance.issue_id for one in found.items] == ["shop-2"]
    assert [c.removed for c in found.candidates] == [why, ""]


@given(WORDS, st.text("x -\n", max_size=2))
def test_no_issue_gets_past_the_guard_by_case_blanks_or_a_comment(text: str, tail: str) -> None:
    disguised = "<!-- hidden -->  " + text.replace(" ", "  ") + " !" + tail.replace("x", " ")
    assert same_issue(Issue("a", "o/r", text), Issue("b", "o/r", disguised)) == "same text"


@given(
    WORDS,
    st.sampled_from("\u200b\u00ad\u2060\ufeff\u202e\U000e0041"),
)
def test_no_issue_gets_past_the_guard_by_characters_that_show_nothing_or_wide_ones(text: str, invisible: str) -> None:
    hidden = invisible.join(text)
    assert text_hash(hidden) == text_hash(text)
    assert same_issue(Issue("a", "o/r", text), Issue("b", "o/r", hidden)) == "same text"
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and c not in "<>-" else c for c in "Cart total wrong #12 " + text)
    assert text_hash(wide) == text_hash("Cart total wrong #12 " + text)


@pytest.mark.parametrize("disguised", ["SHOP-1", "shop-1 ", " Shop-1", "sh\u200bop-1", "shop-1\n", "shop-\u00ad1"])
def test_an_id_written_otherwise_is_the_same_issue(disguised: str) -> None:
    asked = replace(ISSUE, id=disguised)
    own, other = replace_id(past(1, "Another wording of it altogether"), "Shop-1"), past(2)
    found = rank(asked, [Hit(own, 0.99), Hit(other, 0.4)], Shelf(item(own), item(other)), ALWAYS)
    assert [one.provenance.issue_id for one in found.items] == ["shop-2"]
    assert [c.removed for c in found.candidates] == ["same issue", ""]


def replace_id(experience: Experience, number: str) -> Experience:
    return replace(experience, issue=replace(experience.issue, id=number))


def test_another_issue_of_the_same_template_is_not_taken_for_the_same() -> None:
    template = "### What happened\n{}\n### What you expected\n{}\n### Versions\nPython 3.11.2"
    left = template.format("The cart shows a total of zero after a voucher is removed", "The total without the voucher")
    right = template.format("Sending a newsletter twice gives every reader two copies and an error", "One copy for each reader")
    assert same_issue(Issue("a", "o/r", left), Issue("b", "o/r", right)) == ""
    assert jaccard(shingles(left), shingles(left)) == 1.0


def test_texts_without_a_word_are_equal_to_nothing() -> None:
    assert text_hash(" ?! ") == text_hash("") == ""
    assert same_issue(Issue("a", "o/r", "?!"), Issue("b", "o/r", "?!")) == ""


def test_where_the_nearest_hold_no_item_the_search_goes_deeper() -> None:
    near = [Hit(past(n), 0.9) for n in range(1, 31)]  # they hold no item
    far = past(99)
    limits: list[int] = []

    def search(limit: int) -> list[Hit]:
        limits.append(limit)
        return [*near, Hit(far, 0.6)][:limit]

    found = find(ISSUE, search, Shelf(item(far)), RankingSettings())
    assert limits == [20, 40] and found.items[0].provenance.issue_id == "shop-99"


def test_an_experience_that_is_first_only_by_the_sum_is_found_beyond_the_first_search() -> None:
    by_text = [Hit(past(n), 0.60) for n in range(1, 26)]
    by_path = [Hit(past(n), 0.10, path_score=20.0) for n in range(31, 56)]
    both = Hit(past(99), 0.59, path_score=19.0)
    everything = [*by_text, *by_path, both]

    def search(limit: int) -> list[Hit]:
        chosen = (
            sorted(everything, key=lambda hit: -(hit.cosine or 0))[:limit] + sorted(everything, key=lambda hit: -hit.path_score)[:limit]
        )
        return list({hit.experience.key: hit for hit in chosen}.values())

    assert both not in search(20)
    shelf = Shelf(*(item(hit.experience) for hit in everything))
    assert find(ISSUE, search, shelf, RankingSettings()).items[0].provenance.issue_id == "shop-99"


def test_hits_that_the_store_removed_are_shown_but_never_chosen() -> None:
    gone, free = past(1), past(2)
    found = rank(ISSUE, [Hit(gone, 0.9, removed="not created before"), Hit(free, 0.5)], Shelf(item(gone), item(free)), ALWAYS)
    assert [one.provenance.issue_id for one in found.items] == ["shop-2"]
    assert found.candidates[0].removed == "not created before"


# --- who may use what ---


def test_another_repository_gives_its_general_items_only() -> None:
    foreign = past(1, repo="acme/blog")
    own = past(2)
    shelf = Shelf(item(foreign, "names"), item(foreign, "plain", reach="general"), item(own))
    assert rank(ISSUE, [Hit(foreign, 0.8), Hit(own, 0.5)], shelf, ALWAYS).items[0].id == "key1-plain"
    assert rank(ISSUE, [Hit(foreign, 0.8), Hit(own, 0.5)], Shelf(item(foreign), item(own)), ALWAYS).items[0].id == "key2-"


def test_other_repos_leaves_out_the_issues_own_repository() -> None:
    foreign, own = past(1, repo="acme/blog"), past(2)
    found = rank(
        ISSUE,
        [Hit(own, 0.9), Hit(foreign, 0.5)],
        Shelf(item(own, reach="general"), item(foreign, reach="general")),
        replace(ALWAYS, other_repos=True),
    )
    assert [one.repo for one in found.items] == ["acme/blog"]
    assert found.candidates[0].removed == "same repository"


@pytest.mark.parametrize("status", ["quarantined", "retired"])
def test_items_that_are_not_active_are_not_recalled(status: str) -> None:
    first, second = past(1), past(2)
    found = rank(ISSUE, [Hit(first, 0.9), Hit(second, 0.5)], Shelf(item(first, status=status), item(second)), ALWAYS)
    assert [one.id for one in found.items] == ["key2-"]


# --- the order ---


def test_paths_and_named_places_decide_between_issues_that_read_alike() -> None:
    alike, matching, named = past(1, paths=("shop/mail.py",)), past(2, paths=("shop/tax.py",)), past(3, paths=("shop/billing/invoice.py",))
    hits = [Hit(alike, 0.6), Hit(matching, 0.45, path_score=8.0), Hit(named, 0.4, path_score=1.0)]
    shelf = Shelf(item(alike), item(matching), item(named))
    found = rank(ISSUE, hits, shelf, ALWAYS)
    assert [c.issue_id for c in found.candidates] == ["shop-3", "shop-2", "shop-1"]
    assert any("the issue names shop/billing/invoice.py" in reason for reason in found.reasons)
    text_only = rank(ISSUE, hits, shelf, RankingSettings.paper())
    assert [c.issue_id for c in text_only.candidates] == ["shop-1", "shop-2", "shop-3"]


def test_paths_of_another_repository_do_not_count() -> None:
    foreign = past(1, repo="acme/blog", paths=("shop/billing/invoice.py",))
    found = rank(ISSUE, [Hit(foreign, 0.5, path_score=50.0)], Shelf(item(foreign, reach="general")), ALWAYS)
    assert found.score == 0.5


def test_of_the_best_past_issue_the_item_nearest_to_this_issue_is_chosen_over_all_its_attempts() -> None:
    one_way, other_way, worse = past(1), replace(past(1), key="key1b"), past(2)
    title, text, off = (np.eye(4, dtype=np.float32)[n] for n in range(3))
    vector = np.concatenate([title, text]) / np.sqrt(2, dtype=np.float32)
    items = (item(one_way, "far"), item(other_way, "near"), item(worse, "nearest"))
    shelf = Shelf(*items, vectors={items[0].id: off, items[1].id: (title + text) / np.sqrt(2), items[2].id: title})
    found = rank(ISSUE, [Hit(one_way, 0.7), Hit(other_way, 0.69), Hit(worse, 0.5)], shelf, ALWAYS, vector=vector)
    assert found.items[0].id == "key1b-near"
    assert any("of 2 items learned there" in reason and "0.71" in reason for reason in found.reasons)


def test_without_vectors_the_item_that_shares_the_issues_words_is_chosen() -> None:
    only = past(1)
    shelf = Shelf(item(only, "a", content="Restart the queue worker."), item(only, "b", content="Check the last line of the invoice."))
    found = rank(ISSUE, [Hit(only, None, text_score=40.0)], shelf, ALWAYS)
    assert found.items[0].content == "Check the last line of the invoice."
    assert found.score == pytest.approx(40 / 90)


def test_the_reasons_name_what_both_have_but_not_the_repositorys_own_name() -> None:
    match = past(1, paths=("shop/only/total_with_tax.py",))
    reasons = rank(ISSUE, [Hit(match, 0.6, path_score=12.0)], Shelf(item(match)), ALWAYS).reasons
    assert reasons[0].startswith("same repository: learned from shop-1")
    assert "such as total_with_tax, total: BM25 12" in reasons[2]
    assert reasons[3] == "that attempt resolved the issue, says the test report"


def test_equal_scores_are_ordered_by_trust_then_age_then_key_whatever_the_order_of_the_hits() -> None:
    guessed = past(1, verdict=Verdict("resolved", "llm", confidence=0.6))
    tested, newer = past(2), replace(past(3), added=7)
    hits = [Hit(guessed), Hit(tested), Hit(newer)]
    shelf = Shelf(item(guessed), item(tested), item(newer))
    orders = [[c.issue_id for c in rank(ISSUE, order, shelf, ALWAYS).candidates] for order in (hits, hits[::-1], hits[1:] + hits[:1])]
    assert orders == [["shop-3", "shop-2", "shop-1"]] * 3


@pytest.mark.parametrize("settings", [ALWAYS, replace(ALWAYS, k=3), RankingSettings.paper()], ids=["one item", "three items", "paper"])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_not_read_because_nothing_has_to_be_explained_changes_no_choice(settings: RankingSettings, seed: int) -> None:
    draw = np.random.default_rng(seed)
    tries = [replace(past(number % 7), key=f"try{number}") for number in range(30)]  # several attempts at each of seven issues
    hits = [Hit(one, round(float(draw.random()), 1)) for one in tries]
    kept = [item(one, str(n), status="active" if draw.random() < 0.5 else "retired") for one in tries for n in range(2)]
    explained, short = Shelf(*kept), Shelf(*kept)
    full = rank(ISSUE, hits, explained, settings, limit=30)
    bare = rank(ISSUE, hits, short, settings, limit=30, explain=False)
    assert replace(bare, candidates=()) == replace(full, candidates=()) and full.items
    assert [c.experience for c in bare.candidates] == [c.experience for c in full.candidates]


def test_k_items_come_from_k_past_issues_before_any_gives_a_second_and_never_say_the_same_twice() -> None:
    a, b = past(1), past(2)
    same = item(b, "copy")
    shelf = Shelf(item(a, "1"), item(a, "2"), same, replace(same, id="z", content="Something else."))
    found = rank(ISSUE, [Hit(a, 0.9), Hit(b, 0.5)], shelf, replace(ALWAYS, k=3))
    assert [one.provenance.issue_id for one in found.items] == ["shop-1", "shop-2", "shop-1"]


def test_the_papers_grain_gives_an_experience_with_all_its_items() -> None:
    a, b = past(1), past(2)
    shelf = Shelf(item(a, "1"), item(a, "2"), item(b, "3"))
    assert len(rank(ISSUE, [Hit(a, 0.2), Hit(b, 0.1)], shelf, RankingSettings.paper()).items) == 2
    assert len(rank(ISSUE, [Hit(a, 0.2), Hit(b, 0.1)], shelf, replace(RankingSettings.paper(), k=2)).items) == 3


# --- or none ---


def test_below_the_threshold_nothing_is_recalled_and_the_reason_names_the_best() -> None:
    far = past(1)
    found = rank(ISSUE, [Hit(far, 0.2)], Shelf(item(far)), RankingSettings())
    assert (found.items, found.score) == ((), 0.0)
    assert found.reasons == ("nothing is near enough: the best, shop-1, scores 0.20, below the threshold 0.35",)
    assert rank(ISSUE, [Hit(far, 0.2)], Shelf(item(far)), ALWAYS).items


def test_an_empty_bank_and_a_bank_of_the_issue_itself_say_so() -> None:
    assert "holds nothing" in rank(ISSUE, [], Shelf(), ALWAYS).reasons[0]
    own = past(90)
    assert "1 by the guard `same issue`" in rank(ISSUE, [Hit(own)], Shelf(item(own)), ALWAYS).reasons[0]


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"k": 0}, {"grain": "page"}, {"threshold": -1.0}, {"threshold": float("nan")}, {"before": datetime(2024, 1, 1)}):
        with pytest.raises(UsageError):
            RankingSettings(**wrong)


def test_before_this_issue_needs_its_time() -> None:
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    assert RankingSettings(before=True).before_time(replace(ISSUE, created_at=moment)) == moment
    assert RankingSettings(before=moment).before_time(ISSUE) == moment
    assert RankingSettings().before_time(ISSUE) is None
    with pytest.raises(UsageError, match="no creation time"):
        RankingSettings(before=True).before_time(ISSUE)


# --- terms ---


def test_terms_of_paths_and_names_meet_those_of_the_issue() -> None:
    terms = where_terms(["shop/billing/tax_rules.py"], ["TaxRule", "getHTTPRate"]).split()
    assert {"shop/billing", "billing/tax_rules", "tax_rules", "tax", "rules", "taxrule", "rule", "gethttprate", "http", "rate"} <= set(
        terms
    )
    asked = query_terms(Issue("1", "o/r", "Rates are wrong\nSee shop.billing and `getHTTPRate`.\nnumpy: 1.20.3\n<!-- tick_one -->")).split()
    assert {"shop/billing", "gethttprate", "http"} <= set(asked)
    assert not {"numpy", "tick_one"} & set(asked)
    assert asked.count("rates") > asked.count("shop")


def test_terms_do_not_depend_on_the_order_of_paths() -> None:
    assert where_terms(["b/c.py", "a/b.py"], ["y", "x"]) == where_terms(["a/b.py", "b/c.py", "a/b.py"], ["x", "y"])


def test_named_places_are_paths_dotted_names_and_file_names() -> None:
    named = named_places(
        'File "/srv/shop/billing/invoice.py", line 3\nshop.mail.sender raises; look at helpers.py, e.g. or C:\\shop\\cart.py'
    )
    assert {"billing/invoice", "shop/mail", "mail/sender", "shop/cart"} <= named.pairs
    assert {"invoice", "cart"} <= named.files


@pytest.mark.parametrize(
    "piece", ["a", "- ", " 1.1", "x.y/", "<!--", "Aa_", "é", "\n1.2.3\n", " ", "\t", "-", "1.", "1.1(", "(", "=", "\\", " \n", "a:"]
)
def test_an_issue_of_a_megabyte_is_cut_not_chewed(piece: str) -> None:
    huge = Issue("1", "o/r", piece * (1_000_000 // len(piece)))
    assert len(query_terms(huge)) < 400_000
    assert len(issue_views(huge).text) <= 20_000
    assert len(named_places(huge.text).pairs) <= 20_000
    assert same_issue(replace(huge, id="2"), huge) in ("same text", "")
    assert text_hash("x 1.1 " + piece * 100_000 + " y")


# --- BM25 ---


def test_scores_depend_only_on_what_is_visible_not_on_order_or_other_repositories() -> None:
    documents = {"a": "tax line tax", "b": "mail sender", "c": "tax mail", "d": "line line line"}
    whole, grown = Bm25Index(), Bm25Index()
    for key, terms in documents.items():
        whole.add(key, group="shop", terms=terms)
    grown.add("noise", group="blog", terms="tax tax tax")
    for key in ("later", "d", "c", "b", "a", "a"):
        grown.add(key, group="shop", terms=documents.get(key, "tax line mail"))
    expected = whole.scores("tax tax line", group="shop")
    assert expected["a"] > expected["c"] > 0 and "b" not in expected
    assert grown.scores("line tax tax", group="shop", visible=frozenset(documents)) == pytest.approx(expected, rel=1e-12)
    assert grown.scores("tax", group="shop") != grown.scores("tax", group="shop", visible=frozenset(documents))
    assert whole.scores("tax", group="nowhere") == {} and whole.scores("", group="shop") == {}


def test_a_term_repeated_in_the_query_weighs_more_but_less_than_twice() -> None:
    index = Bm25Index()
    index.add("a", group="g", terms="x")
    index.add("b", group="g", terms="y")
    once, many = index.scores("x", group="g")["a"], index.scores("x " * 50, group="g")["a"]
    assert once < index.scores("x x", group="g")["a"] < many < 2 * once
