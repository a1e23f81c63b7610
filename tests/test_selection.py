"""Which instances a run is about: each criterion alone, together, and what is said where they leave nothing."""

from __future__ import annotations

from typing import Any

import pytest
from dataset_rows import row

from harness.dataset import Dataset, make_dataset
from harness.instances import instance_from_row
from harness.selection import select
from swe_memory.errors import UsageError


def ids(*numbers: int, repo: str = "web") -> tuple[str, ...]:
    return tuple(f"acme__{repo}-{number}" for number in numbers)


@pytest.fixture
def dataset() -> Dataset:
    """Six issues of acme/web and two of Acme/lib, in an order that is neither that of their numbers nor of their names."""
    web = [row(instance_id=name) for name in ids(10, 2, 7, 1)]
    lib = [row(instance_id=name, repo="Acme/lib") for name in ids(3, 4, repo="lib")]
    more = [row(instance_id=name) for name in ids(30, 31)]
    return make_dataset("rows", [instance_from_row(one) for one in (*web, *lib, *more)])


def test_nothing_given_is_everything_in_the_datasets_order(dataset: Dataset) -> None:
    assert select(dataset) == ids(10, 2, 7, 1) + ids(3, 4, repo="lib") + ids(30, 31)


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        (":3", None, 3),
        ("0:3", 0, 3),
        ("2:4", 2, 4),
        ("-2:", -2, None),
        (":-6", None, -6),
        ("-3:-1", -3, -1),
        ("6:100", 6, 100),
        (" 1 : +2 ", 1, 2),
        (":", None, None),
    ],
)
def test_slices_are_those_of_python(dataset: Dataset, text: str, start: int | None, stop: int | None) -> None:
    assert select(dataset, slice=text) == select(dataset)[start:stop]


@pytest.mark.parametrize("text", ["3", "a:b", "1:2:3", "::", "1;2", "1.0:2", "9" * 5000 + ":", "٣:"])
def test_what_is_no_slice_is_refused(dataset: Dataset, text: str) -> None:
    with pytest.raises(UsageError, match="is not A:B"):
        select(dataset, slice=text)


def test_a_pattern_begins_where_the_id_begins(dataset: Dataset) -> None:
    assert select(dataset, pattern="acme__web-3") == ids(30, 31)
    assert select(dataset, pattern="acme__web-.$") == ids(2, 7, 1)
    assert select(dataset, pattern=".*lib|acme__web-2$") == ids(2) + ids(3, 4, repo="lib")
    with pytest.raises(UsageError, match="--filter lib leaves none"):
        select(dataset, pattern="lib")


def test_instances_and_repositories_may_be_several_and_keep_the_datasets_order(dataset: Dataset) -> None:
    assert select(dataset, instances=ids(1, 10, 1)) == ids(10, 1)
    assert select(dataset, repos=["acme/LIB"]) == ids(3, 4, repo="lib")
    assert select(dataset, repos=["Acme/lib", "acme/web"]) == select(dataset)


def test_an_instance_must_pass_all_and_the_slice_counts_what_the_others_left(dataset: Dataset) -> None:
    assert select(dataset, slice="1:3", repos=["acme/web"], pattern=r"acme__web-\d$") == ids(7, 1)
    assert select(dataset, slice="-1:", instances=ids(10, 2) + ids(3, repo="lib"), repos=["acme/web"]) == ids(2)


@pytest.mark.parametrize(
    ("criteria", "told"),
    [
        ({"slice": "100:"}, "of the 8 of rows: --slice 100: leaves none"),
        ({"repos": ["acme/lib"], "pattern": "acme__web"}, "--repo acme/lib leaves 2, then --filter acme__web leaves none"),
        ({"instances": ids(1), "repos": ["acme/lib"], "slice": "1:"}, "--instance leaves 1, then --repo acme/lib leaves none"),
        ({"pattern": "acme__web-1", "slice": "5:6"}, "--filter acme__web-1 leaves 2, then --slice 5:6 leaves none"),
    ],
)
def test_where_nothing_is_left_each_step_is_told_up_to_the_one_that_took_the_last(
    dataset: Dataset, criteria: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        select(dataset, **criteria)
    assert caught.value.what.endswith(told)


def test_what_the_dataset_does_not_have_is_told_with_what_is_near(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="no instance 'acme__web-100', 'x' ") as caught:
        select(dataset, instances=["acme__web-100", *ids(1), "x"])
    assert "acme__web-10" in caught.value.hint
    with pytest.raises(UsageError, match="no repository 'acme/wbe'") as caught:
        select(dataset, repos=["acme/wbe"])
    assert "2 repositories, such as acme/web" in caught.value.hint
    with pytest.raises(UsageError, match="and 15 more"):
        select(dataset, instances=[f"y-{number}" for number in range(20)])


@pytest.mark.parametrize("pattern", ["(", "*", "[z-a]", "(" * 5000])
def test_what_is_no_pattern_is_refused(dataset: Dataset, pattern: str) -> None:
    with pytest.raises(UsageError, match="is not a regular expression"):
        select(dataset, pattern=pattern)
