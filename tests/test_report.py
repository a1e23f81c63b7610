"""The report of a run: a sound page for every run, strangers' text that stays text, true sentences for every awkward folder, and files that are ours."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.words import CHARGED
from harness.compare import compare_run
from harness.layout import Cell, lay_out
from harness.plan import Experiment
from harness.report.attempts import FIELDS, script_json
from harness.report.csv_file import attempts_csv
from harness.report.latex import escape as latex_escape
from harness.report.latex import table as latex_table
from harness.report.lessons import Lesson, lessons
from harness.report.markdown import MARK, markdown
from harness.report.markdown import prose as markdown_prose
from harness.report.material import Material, load
from harness.report.methods import SOURCES, methods_used
from harness.report.page import page
from harness.report.style import SERIES, styles
from harness.report.svg import Scale, spread, ticks
from harness.report.words import amount, amounts, anchor, points, prose, visible
from swe_memory.bank import MemoryBank
from swe_memory.cli import main
from swe_memory.records import Verdict
from tests.banks import BagOfWords, NoteTaker, attempt
from tests.experiments import experiments
from tests.made_journal import Journal, simulated_experiment, write_run
from tests.pages import Page, attempt_links, broken_links, read_page

ARMS = ("none", "reasoningbank", "derangement")
NASTY = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    '=HYPERLINK("http://evil.example")',
    "[click](javascript:alert(1)) | a *bold* `tick` <b>x</b>",
    "line\u2028separator\u2029 and \x00 zero \x1b[31m red \u202e turned",
    "{{ 7 * 7 }} {% for x in y %} ${x} \\end{table} %",
    "&lt;b&gt; &amp; <!-- comment --> ]]>",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three arms, two runs each, trajectories in place."""
    experiment = simulated_experiment(10, 6, 3, arms=ARMS, reruns=2, baseline_reruns=2)
    return write_run(tmp_path_factory.mktemp("report") / "lasting", experiment, trajectories=True)


@pytest.fixture(scope="module")
def material(run: Path) -> Material:
    return load(run, run)


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["report", *map(str, arguments)])
    return (code, *capsys.readouterr())


def parsed(text: str) -> Page:
    found = Page()
    found.feed(text)
    return found.finish()


def sound(found: Page, folder: Path) -> None:
    """What holds of every report."""
    assert found.wrong == [] and broken_links(found, folder) == []
    assert (
        found.tags["script"] == 2
        and found.tags["style"] == 1
        and not found.tags.keys() & {"img", "iframe", "link", "form", "object", "base", "b64"}
    )
    assert not [name for _, name in found.attributes if name.startswith("on") or name == "style"]
    seen = re.sub(r"\s+", " ", found.text)
    for word in ("nan", "NaN", "None", "undefined", "Traceback", "Infinity", "inf "):
        assert not re.search(rf"(?<![\w-]){word}(?![\w-])", seen), (word, seen[max(0, seen.find(word) - 80) :][:160])


# -- the page --------------------------------------------------------------------------------------------------------------------------------


def test_the_page_is_sound_and_asks_nothing_of_the_network(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ask(capsys, run)
    assert code == 0, err
    sound(read_page(run / "report.html"), run)
    assert (
        "http:" not in (text := (run / "report.html").read_text(encoding="utf-8"))
        and "https:" not in text
        and "//" not in "".join(link for link in read_page(run / "report.html").links)
    )
    assert "wrote" in out and (run / "report.md").is_file() and (run / "attempts.csv").is_file()


def test_the_page_says_what_the_comparison_says(run: Path, material: Material) -> None:
    result = compare_run(run)
    found = parsed(page(material))
    seen = re.sub(r"\s+", " ", found.text).replace("−", "-")
    wanted = [
        result["headline"]["sentence"],
        *(t["sentence"] for t in result["threats"]),
        *result["sentences"],
        *(c["sentence"] for c in result["claims"]),
    ]
    for sentence in wanted:
        told = sentence.replace(f"swe-memory compare {run}", f"swe-memory report {run.name}")  # the page is for others
        assert re.sub(r"\s+", " ", told.replace("`", "")) in seen, sentence
    assert CHARGED.replace("`", "") in seen and CHARGED in markdown(material)
    for arm in result["arms"]:
        assert f"{arm['resolved']} of {arm['graded']}" in seen and f"{100 * arm['rate']:.1f} %" in seen
    for part in (material.experiment.dataset_hash, "simulated-model", "memory_block, version 1", result["endpoint"].replace("`", "")):
        assert part in seen
    flips = result["comparisons"][0]["flips"]["list"]
    assert flips and all(anchor("issue", flip["issue"]) in found.ids for flip in flips)
    assert len(found.data["rows"]) == sum(arm["planned"] for arm in result["arms"])


def test_every_attempt_leads_to_its_trajectory_from_wherever_the_page_lies(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path / "deep" / "below" / "mine.html", run.parent / "beside.html"):
        out.parent.mkdir(parents=True, exist_ok=True)
        assert ask(capsys, run, "--out", out)[0] == 0
        found = read_page(out)
        sound(found, out.parent)
        assert sum("traj.json" in link for link in attempt_links(found)) == 19 * 3 * 2
        assert out.with_name(f"{out.stem}.md").is_file() and out.with_name(f"{out.stem}-attempts.csv").is_file()


def test_the_same_run_gives_the_same_bytes(run: Path) -> None:
    once, again = load(run, run), load(run, run)
    assert page(once) == page(again) and markdown(once) == markdown(again)


def test_a_link_is_only_made_to_what_is_there(tmp_path: Path) -> None:
    bare = write_run(tmp_path / "bare", simulated_experiment(4))
    found = parsed(page(load(bare, bare)))
    sound(found, bare)
    assert not any("traj.json" in link for link in found.links) and not any("traj.json" in link for link in attempt_links(found))


# -- strangers' text -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every text that a stranger may choose is nasty: titles, reasons, names of issues and repositories, verdicts."""
    experiment = simulated_experiment(20, 12, arms=ARMS)
    names = {issue: f"{issue}{NASTY[number % len(NASTY)]}".replace("\x00", "") for number, issue in enumerate(experiment.instances)}
    renamed = replace(
        experiment,
        instances=tuple(names.values()),
        repositories=tuple(f"{repo}{NASTY[1]}" for repo in experiment.repositories),
        agent=f"command: {NASTY[0]}",
        dataset=NASTY[1],
        versions={NASTY[0]: NASTY[1]},
    )
    return write_run(
        tmp_path_factory.mktemp("hostile") / "run",
        renamed,
        title=lambda number: NASTY[number % len(NASTY)],
        fails=lambda cell: cell.arm.name == "derangement" and cell.issue.endswith(NASTY[0]),
        reason=NASTY[0] + NASTY[5],
    )


def test_strangers_text_is_shown_and_never_run(hostile: Path) -> None:
    held = load(hostile, hostile)
    lesson = Lesson(NASTY[0], NASTY[1], NASTY[2], NASTY[0], NASTY[6], NASTY[7], NASTY[4], NASTY[3])
    held = replace(held, lessons={item["id"]: lesson for item in held.result["items"]}, problems=(*held.problems, NASTY[0]))
    found = parsed(page(held))
    sound(found, hostile)
    for text in (NASTY[0], NASTY[1], NASTY[2], NASTY[6], NASTY[7]):
        assert text in found.text
    recalled = {found.data["strings"][row[12]] for row in found.data["rows"] if row[12] is not None}
    assert recalled == {visible(text) for text in NASTY} and not any(sign in found.text for sign in "\x00\x1b\u202e")


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
    )
)
def test_data_in_the_page_cannot_end_its_script(value: Any) -> None:
    text = script_json(value)
    assert not re.search("[<>&\u2028\u2029]", text) and json.loads(text) == value


def test_a_spreadsheet_takes_no_strangers_text_for_a_formula(hostile: Path) -> None:
    text = attempts_csv(load(hostile, hostile).result)
    rows = list(csv.reader(io.StringIO(text)))
    assert tuple(rows[0]) == FIELDS and len({len(row) for row in rows}) == 1
    cells = [cell for row in rows[1:] for cell in row]
    assert any("HYPERLINK" in cell for cell in cells)
    assert not [cell for cell in cells if cell[:1] in "=+-@\t\r" and cell and not re.fullmatch(r"-?[\d.e-]+", cell)]


def test_markdown_of_strangers_text_forms_no_markup(hostile: Path) -> None:
    text = markdown(load(hostile, hostile))
    assert text.startswith(MARK)
    bare = re.sub(r"`[^`\n]*`", "", text.split("```latex")[0]).replace(MARK, "")
    assert not re.search(r"(?<!\\)<", bare) and not re.search(r"(?<!\\)\]\(", bare)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


@given(st.text())
def test_latex_of_any_text_is_balanced_and_on_one_line(text: str) -> None:
    made = latex_escape(text)
    assert "\n" not in made and not re.search(r"(?<!\\)[%&#$_~^]", made)
    bare = made.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")


def test_a_sentence_with_markup_in_backticks_stays_text() -> None:
    assert prose("`<b>` and <i> by -3.2 points, re-run") == "<code>&lt;b&gt;</code> and &lt;i&gt; by −3.2 points, re-run"


# -- awkward runs ----------------------------------------------------------------------------------------------------------------------------


def always(value: bool) -> dict[str, Any]:
    return {"level": 60.0 if value else -60.0, "gains": {}}


def corrupt(folder: Path) -> None:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    lines[4] = "{not json"
    path.write_text("\n".join(lines) + "\n")


def no_calls(folder: Path) -> None:
    path = folder / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [event | ({"calls": None, "actions": None, "cost": None} if event["event"] == "finished" else {}) for event in events]
    path.write_text("".join(json.dumps(event) + "\n" for event in kept if event["event"] != "usage"))


def cut(folder: Path) -> None:
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[: len(lines) * 3 // 4]) + '\n{"event": "gra')


def unlucky(cell: Cell) -> bool:
    return cell.arm.name == "reasoningbank" and cell.issue.endswith("7")


def nothing(folder: Path) -> None:
    (folder / "events.jsonl").unlink()


AWKWARD: dict[str, tuple[Experiment, dict[str, Any], Callable[[Path], None] | None, str]] = {
    "one arm": (simulated_experiment(6, arms=("none",)), {}, None, "nothing about what memory changes"),
    "memory alone": (simulated_experiment(6, arms=("reasoningbank",), protocol="online"), {}, None, "nothing about what memory changes"),
    "two issues": (simulated_experiment(1, 1), {}, None, "resolve rate"),
    "one issue": (simulated_experiment(1, protocol="online"), {}, None, "1 issue"),
    "all resolved": (simulated_experiment(8), always(True), None, "100.0 %"),
    "none resolved": (simulated_experiment(8), always(False), None, "no discordant pair"),
    "one stream": (simulated_experiment(12, protocol="online"), {}, None, "along the path of this one stream"),
    "many streams": (simulated_experiment(9, 6, protocol="online", orders=3, baseline_reruns=2), {}, None, "As the bank grows"),
    "builds": (simulated_experiment(9, 6, arms=ARMS, builds=3, baseline_reruns=3), {}, None, "over builds"),
    "a given bank": (simulated_experiment(6, protocol="offline"), {}, None, "given the bank"),
    "gold": (simulated_experiment(6, arms=("none", "reasoningbank", "gold")), {}, None, "The reference patch passes here on 6 of 6"),
    "machine failures": (simulated_experiment(9, arms=ARMS), {"fails": unlucky}, None, "failed through the machine"),
    "calls not known": (simulated_experiment(6), {}, no_calls, "Calls are not known"),
    "a corrupt event": (simulated_experiment(6), {}, corrupt, "line 5 is not an event"),
    "stopped half-way": (simulated_experiment(9, arms=ARMS), {}, cut, "stopped before it was done"),
    "not begun": (simulated_experiment(6), {}, nothing, "not begun"),
}  # fmt: skip


@pytest.mark.parametrize("name", AWKWARD)
def test_an_awkward_run_gets_a_sound_page_and_a_true_sentence(name: str, tmp_path: Path) -> None:
    experiment, journal, damage, said = AWKWARD[name]
    folder = write_run(tmp_path / "run", experiment, **journal)
    if damage:
        damage(folder)
    held = load(folder, folder)
    found = parsed(page(held))
    sound(found, folder)
    assert said in re.sub(r"\s+", " ", found.text)
    for text in (markdown(held), latex_table(held.result), attempts_csv(held.result)):
        assert not re.search(r"(?<!\w)(nan|None|inf)(?!\w)", text)


@settings(max_examples=8, deadline=None)
@given(experiments(), st.integers(0, 400), st.integers(0, 9))
def test_any_run_cut_at_any_event_gets_a_sound_page(
    tmp_path_factory: pytest.TempPathFactory, experiment: Experiment, end: int, seed: int
) -> None:
    folder = write_run(tmp_path_factory.mktemp("cut") / "run", experiment, seed=seed)
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[:end]))
    held = load(folder, folder)
    sound(parsed(page(held)), folder)
    markdown(held)


def test_a_journal_is_one_that_a_run_could_have_written() -> None:
    from harness.events import fold

    for experiment in (AWKWARD["builds"][0], AWKWARD["many streams"][0], AWKWARD["a given bank"][0], AWKWARD["gold"][0]):
        state = fold(Journal(experiment).events())
        assert state.problems == () and len(state.attempts) == len(lay_out(experiment).cells)


# -- the items -------------------------------------------------------------------------------------------------------------------------------


def test_the_texts_of_items_come_from_the_banks_of_the_run(tmp_path: Path) -> None:
    experiment = simulated_experiment(4)
    folder = write_run(tmp_path / "run", experiment)
    place = folder / lay_out(experiment).banks[0].place / "bank.lance"
    place.parent.mkdir(parents=True)
    with MemoryBank.open(place, embedder=BagOfWords()) as bank:
        for number in range(3):
            made = attempt(number)
            bank.learn(made.issue, made.trajectory, Verdict("resolved", "caller"), extractor=NoteTaker())
        ids = [item.id for item in bank.items()]
    found, problems = lessons(folder, lay_out(experiment), ids)
    assert list(found) == ids and problems == []
    assert found[ids[0]].content.startswith("Print the value at each hand-over") and found[ids[0]].extractor == "notes@1"
    (place / "items.lance").rename(place / "gone")
    found, problems = lessons(folder, lay_out(experiment), ids)
    assert found == {} and len(problems) == 1 and "cannot be read" in problems[0]


def test_an_item_is_shown_with_its_text_and_each_attempt_that_ran_with_it(material: Material) -> None:
    item = material.result["items"][0]
    lesson = Lesson("Described so", "Say it so", "success", "repository", "strategy", "rules@1", "", "none/1-1/x")
    found = parsed(page(replace(material, lessons={item["id"]: lesson})))
    assert anchor("item", item["id"]) in found.ids and "Described so" in found.text and "Say it so" in found.text
    assert f"{item['flips_for']} for, {item['flips_against']} against" in found.text


# -- the files -------------------------------------------------------------------------------------------------------------------------------


def test_only_reports_are_written_over(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("page.html", "page.md", "page-attempts.csv"):
        (tmp_path / name).write_text("my own work\n")
        code, _, err = ask(capsys, run, "--out", tmp_path / "page.html")
        assert code == 2 and "is no report" in err and (tmp_path / name).read_text() == "my own work\n"
        (tmp_path / name).unlink()
    assert ask(capsys, run, "--out", tmp_path / "page.html")[0] == 0
    assert ask(capsys, run, "--out", tmp_path / "page.html")[0] == 0


def test_what_is_not_wanted_is_not_written(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, run, "--out", tmp_path, "--no-markdown", "--no-csv")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_without_a_run_or_a_place_that_cannot_be_written_is_a_sentence(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ask(capsys, tmp_path)
    assert code == 2 and "is no run folder" in err and not out
    (tmp_path / "file").write_text("")
    code, out, err = ask(capsys, run, "--out", tmp_path / "file" / "report.html")
    assert code in (1, 2) and "cannot write" in err and "Traceback" not in err and not out


def test_the_table_for_a_paper_has_a_row_for_each_arm_and_the_numbers_of_the_comparison(material: Material) -> None:
    text = latex_table(material.result)
    rows = [line for line in text.splitlines() if line.strip().startswith(r"\texttt{")]
    assert len(rows) == 3 and all(row.count("&") == 4 and row.endswith(r"\\") for row in rows)
    primary = material.result["comparisons"][0]
    assert f"${100 * primary['difference']:+.1f}$" in rows[1] and text.count(r"\begin") == text.count(r"\end") == 2


def test_every_method_that_made_a_number_has_its_source(material: Material) -> None:
    assert {"Tango", "effective number", "Wilson", "Holm", "pass@k", "expanded percentile"} <= set(methods_used(material.result))
    assert "Cochran" not in methods_used(material.result)
    assert len({word for word, _ in SOURCES}) == len(SOURCES)


# -- how it looks ----------------------------------------------------------------------------------------------------------------------------


def colours() -> dict[str, dict[str, str]]:
    from importlib import resources

    css = resources.files("harness.report").joinpath("templates", "report.css").read_text()
    light, dark = (
        re.search(pattern, css, re.DOTALL) for pattern in (r":root \{(.*?)\}", r"prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}")
    )
    assert light and dark
    return {name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", found.group(1))) for name, found in (("light", light), ("dark", dark))}


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_can_be_told_from_the_paper(theme: str) -> None:
    found = colours()[theme]
    for paper in ("paper", "panel"):
        for name in ("ink", "soft", "link", "link-done", "good", "bad", "warn", "serious", *(f"s{number}" for number in range(SERIES))):
            one, two = sorted((luminance(found[name]), luminance(found[paper])))
            assert (two + 0.05) / (one + 0.05) >= 4.5, (theme, name, paper)
    assert set(colours()["light"]) == set(colours()["dark"])


def test_arms_are_told_apart_without_their_colour() -> None:
    arms = [{"arm": str(number), "kind": "none" if number == 2 else "memory"} for number in range(12)]
    found = list(styles(arms).values())
    assert len({(style.marker, style.dash) for style in found}) == len(found)
    assert styles(arms)["2"].series == "s0" and len({style.marker for style in list(styles(arms[:6]).values())}) == 6


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(2, 9))
def test_ticks_are_round_and_within_the_axis(low: float, width: float, number: int) -> None:
    found = ticks(low, low + width, number)
    assert len(found) <= number + 1 and all(low - 1e-6 * width <= tick <= low + width * (1 + 1e-6) for tick in found)
    assert Scale(low, low + width, 0, 100)(low) == 0


@given(st.lists(st.floats(0, 100), max_size=6))
def test_labels_keep_apart_and_in_order(places: list[float]) -> None:
    found = spread(places, 10, 0, 100)
    ordered = sorted(found)
    assert all(later - sooner >= 10 - 1e-6 for sooner, later in pairwise(ordered))
    assert sorted(range(len(places)), key=lambda n: (places[n], found[n])) == sorted(range(len(places)), key=lambda n: found[n])


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (points(0.0342), "+3.4"),
        (points(-0.0004), "0.0"),
        (points(None), "–"),
        (amounts("cost", -0.0509, -0.15, 0.05, sign=True), "−$0.0509 (−$0.1500 to +$0.0500)"),
        (amounts("cost", 0.0003, 0.0001, 0.0005, sign=True), "+$0.0003 (+$0.0001 to +$0.0005)"),
        (amounts("cost", 0.0, -0.0002, 0.0002, sign=True), "$0.0000 (−$0.0002 to +$0.0002)"),
        (amounts("cost", 1.5, -0.04, 3.0), "$1.50 (−$0.04 to $3.00)"),
        (amounts("cost", 0.0003, sign=True), amount("cost", 0.0003, sign=True)),
        (amounts("tokens", 12345.6), "12,346"),
        (amounts("calls", 3.0, None, None, sign=True), "+3.0"),
        (amounts("calls", -0.04, -0.1, 0.04, sign=True), "0.0 (−0.1 to 0.0)"),
        (
            markdown_prose("`none` 16.7 % [x](y) <b> of 24 issues, -3.2 | 1. a + b"),
            "`none` 16.7 % \\[x\\](y) \\<b\\> of 24 issues, −3.2 \\| 1\\. a \\+ b",
        ),
    ],
)
def test_numbers_are_written_in_one_way(shown: str, expected: str) -> None:
    assert shown == expected


@given(st.text(max_size=30), st.text(max_size=30))
def test_anchors_of_different_names_differ(one: str, other: str) -> None:
    assert (anchor("item", one) == anchor("item", other)) == (one == other)
    assert re.fullmatch(r"item-[A-Za-z0-9_.-]*", anchor("item", one))
