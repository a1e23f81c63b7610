"""Images: which may be evicted, and getting, listing and evicting them on a real engine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from containers import build_image
from hypothesis import given
from hypothesis import strategies as st

from harness.environments.eviction import Image, UsageRecord, Use, choose_evictions
from harness.environments.images import PullProgress, ensure_image, evict_images, list_images
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

NOW = 10_000.0


def image(name: str, size: int = 10, **more: object) -> Image:
    return Image(f"id-{name}", (f"{name}:latest",), size, **{"last_used": 0.0, **more})  # type: ignore[arg-type]


def chosen(*images: Image, excess: int, keep: tuple[str, ...] = ()) -> list[str]:
    return [one.id.removeprefix("id-") for one in choose_evictions(images, excess=excess, now=NOW, keep=keep, idle=100)]


def test_the_least_recently_used_go_first_and_no_more_than_need_to() -> None:
    images = [image("new", last_used=30.0), image("old", last_used=10.0), image("middle", last_used=20.0)]
    assert chosen(*images, excess=0) == [] == chosen(*images, excess=-5)
    assert chosen(*images, excess=1) == ["old"]
    assert chosen(*images, excess=11) == ["old", "middle"]
    assert chosen(*images, excess=1000) == ["old", "middle", "new"]


def test_what_an_image_shares_with_others_does_not_count_as_freed() -> None:
    assert chosen(image("a", 100, shared=95), image("b", 100, shared=95, last_used=1.0), excess=10) == ["a", "b"]


def test_what_is_in_use_to_come_just_used_or_not_ours_stays() -> None:
    images = [
        image("busy", in_use=True),
        image("to-come"),
        image("by-id"),
        image("just-used", last_used=NOW - 99),
        image("theirs", last_used=None),
        image("theirs-too", foreign=True),
    ]
    assert chosen(*images, excess=1000, keep=("to-come:latest", "id-by-id")) == []


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.one_of(st.none(), st.floats(0, NOW)), st.booleans()), max_size=30),
    st.integers(-10, 500),
)
def test_an_eviction_frees_enough_or_all_that_may_go_and_nothing_too_many(
    rows: list[tuple[int, int, float | None, bool]], excess: int
) -> None:
    images = [
        image(str(number), size, shared=shared, last_used=used, in_use=busy) for number, (size, shared, used, busy) in enumerate(rows)
    ]
    found = choose_evictions(images, excess=excess, now=NOW, idle=100)
    allowed = [one for one in images if one.last_used is not None and not one.in_use and NOW - one.last_used >= 100]
    assert set(found) <= set(allowed)
    freed = [one.own for one in found]
    assert sum(freed) >= excess or set(found) == set(allowed)
    assert not found or sum(freed[:-1]) < excess
    assert found == choose_evictions(reversed(images), excess=excess, now=NOW, idle=100)


def test_the_record_of_use_is_shared_and_survives_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "images.json"
    record = UsageRecord(path, clock=lambda: 5.0)
    assert record.read("engine") == {}
    record.touch("engine", "one", "a:1")
    UsageRecord(path, clock=lambda: 6.0).touch("engine", "two", "b:1")
    record.touch("other", "one", "a:1")
    record.touch("engine", "one", "a:2")
    assert record.read("engine") == {"one": Use(5.0, ("a:1", "a:2")), "two": Use(6.0, ("b:1",))}
    record.forget("engine", "one")
    assert record.read("engine") == {"two": Use(6.0, ("b:1",))}
    for rubbish in ("", "[1]", '{"engine": 3, "other": {"one": "x", "two": 5.0, "three": {"last": 5.0, "names": [1]}}}'):
        path.write_text(rubbish, encoding="utf-8")
        assert record.read("engine") == record.read("other") == {}
    record.touch("engine", "one", "a:1")
    assert record.read("engine") == {"one": Use(5.0, ("a:1",))}


@pytest.fixture
def usage(tmp_path: Path) -> UsageRecord:
    return UsageRecord(tmp_path / "images.json", clock=lambda: NOW)


@pytest.fixture
def small(engine: DockerClient, base_image: str, tmp_path: Path) -> Iterator[list[str]]:
    """Two images of 3 MB of their own on top of the base, by name."""
    names = []
    for letter in "ab":
        (tmp_path / letter).mkdir()
        (tmp_path / letter / "content").write_bytes(os.urandom(3_000_000))
        name = f"swe-memory-test/small-{letter}-{os.getpid()}:latest"
        names.append(build_image(engine, name, f"FROM {base_image}\nCOPY files /files\n", {"files": tmp_path / letter}))
    yield names
    for name in names:
        if engine.images.list(name):
            engine.images.remove(name, force=True)


def test_an_image_that_is_here_is_not_pulled_and_counts_as_used(engine: DockerClient, small: list[str], usage: UsageRecord) -> None:
    found = ensure_image(engine, small[0], lambda _: pytest.fail("it was pulled"), usage=usage)
    assert found.last_used == NOW and found.architecture in ("amd64", "arm64") and small[0] in found.names
    assert list(usage.read(engine.info()["ID"])) == [found.id]


def test_the_list_says_what_is_here_what_is_missing_and_what_disk_that_takes(
    engine: DockerClient, small: list[str], usage: UsageRecord
) -> None:
    found = list_images(
        engine, [*small, f"docker.io/{small[0].removesuffix(':latest')}", "swe-memory-test/none:1", "swe-memory-test/none:2"], usage=usage
    )
    assert sorted(name for one in found.present for name in one.names) == sorted(small)
    assert found.missing == ("swe-memory-test/none:1", "swe-memory-test/none:2")
    assert all(one.size > one.own > 2_900_000 for one in found.present)
    assert found.needed is not None and found.needed[0] == pytest.approx(6_000_000, rel=0.1) and found.taken > 6_000_000
    assert found.needed[1] == sum(one.size for one in found.present)  # two are here, and two are missing
    assert list_images(engine, ["swe-memory-test/none:1"], usage=usage).needed is None


def test_eviction_takes_the_oldest_of_ours_and_leaves_what_a_container_uses(
    engine: DockerClient, small: list[str], usage: UsageRecord
) -> None:
    old, new = (ensure_image(engine, name, usage=usage) for name in small)
    later = UsageRecord(usage.path, clock=lambda: NOW + 10_000)
    assert evict_images(engine, 0, usage=usage).removed == (), "they were used just now"
    assert evict_images(engine, 0, usage=later, keep=small).removed == ()
    busy = engine.api.create_container(old.id, command=["true"])
    try:
        done = evict_images(engine, 0, usage=later)
        assert [one.id for one in done.removed] == [new.id] and not done.enough
    finally:
        engine.api.remove_container(busy["Id"])
    done = evict_images(engine, done.taken - 1, usage=later)
    assert [one.id for one in done.removed] == [old.id]
    assert evict_images(engine, 10**15, usage=later).enough
    assert later.read(engine.info()["ID"]) == {}


def test_an_image_with_a_name_of_somebody_elses_stays(engine: DockerClient, small: list[str], usage: UsageRecord) -> None:
    """Removing it would take that name too."""
    found = ensure_image(engine, small[0], usage=usage)
    other = small[0].replace("small", "kept")
    assert engine.images.get(small[0]).tag(other)
    later = UsageRecord(usage.path, clock=lambda: NOW + 10_000)
    try:
        assert evict_images(engine, 0, usage=later).removed == ()
        assert engine.images.get(other).id == found.id == engine.images.get(small[0]).id
        ensure_image(engine, other.removesuffix(":latest"), usage=usage)
        assert [{*one.names} for one in evict_images(engine, 0, usage=later).removed] == [{small[0], other}]
    finally:
        if engine.images.list(other):
            engine.images.remove(other, force=True)


@pytest.fixture
def registry(engine: DockerClient, small: list[str], tmp_path: Path) -> Iterator[str]:
    """The address of a registry that the engine reaches, and that holds ``team/image``."""
    with (tmp_path / "image.tar").open("wb") as file:
        for block in engine.images.get(small[0]).save():
            file.write(block)
    command = [sys.executable, str(Path(__file__).with_name("registry.py")), str(tmp_path / "image.tar"), "team/image"]
    pid = Path(os.environ["DOCKER_HOST"].removeprefix("unix://")).with_name("pid")
    if pid.is_file():  # an engine in a network of its own
        command = ["nsenter", "--target", pid.read_text().strip(), "--net", *command]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    yield f"127.0.0.1:{process.stdout.readline().strip()}"
    process.stdin.close()
    process.wait(timeout=30)


def test_an_image_that_is_not_here_is_pulled_once_whoever_asks_and_tells_how_far_it_is(
    engine: DockerClient, registry: str, small: list[str], usage: UsageRecord
) -> None:
    name = f"{registry}/team/image"
    engine.images.remove(small[0], force=True)
    told: list[PullProgress] = []
    found: list[Image] = []
    threads = [threading.Thread(target=lambda: found.append(ensure_image(engine, name, told.append, usage=usage))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        assert len({one.id for one in found}) == 1 and len(found) == 4
        assert [progress.status for progress in told].count(f"Status: Downloaded newer image for {name}:latest") == 1
        assert told[-1].done == told[-1].total >= 3_000_000
        assert all(progress.done <= progress.total for progress in told)
    finally:
        engine.images.remove(name, force=True)


def test_what_cannot_be_pulled_is_the_machines_failure_and_says_why(engine: DockerClient, registry: str, usage: UsageRecord) -> None:
    with pytest.raises(InfraError, match=r"not on this engine and could not be pulled.*\n.*Check the name"):
        ensure_image(engine, f"{registry}/team/none", usage=usage)
    with pytest.raises(InfraError, match=r"could not be pulled.*\n.*limits anonymous pulls"):
        ensure_image(engine, f"{registry}/limited/image", usage=usage)
    with pytest.raises(InfraError, match=r"could not be pulled.*\n.*does not reach the registry"):
        ensure_image(engine, "127.0.0.1:1/team/image", usage=usage)
