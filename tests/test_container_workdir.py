"""The patch of a container: what changed since the image was made, in every way a file can change, whatever the agent did to its repository."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from containers import once, repository_image

from harness.container_workdir import ContainerWorkdir, prepare_container
from harness.environments.docker import DockerEnvironment, Labels
from harness.workdir import MOST_BYTES, MOST_NEW_FILES, PatchRefused
from swe_memory.errors import InfraError

if TYPE_CHECKING:
    from docker import DockerClient

BEGINNING = """
export GIT_CONFIG_NOSYSTEM=1 HOME=/nowhere GIT_AUTHOR_DATE=@1590969600 GIT_COMMITTER_DATE=@1590969600
export GIT_AUTHOR_NAME=Dev GIT_AUTHOR_EMAIL=dev@example.invalid GIT_COMMITTER_NAME=Dev GIT_COMMITTER_EMAIL=dev@example.invalid
git init -qb main .
echo 'a = 1' > a.py; echo 'b = 1' > b.py; mkdir package; echo 'c = 1' > package/c.py; printf 'caf\\351\\n' > latin.txt; printf 'one\\r\\ntwo\\r\\n' > crlf.txt
echo '*.so' > .gitignore
git add -A; git -c core.autocrlf=false commit -qm first
echo 'a = 1  # pinned' > a.py
GIT_COMMITTER_EMAIL=setup@swebench.config git commit -qam SWE-bench
echo 'b = 1  # not committed' > b.py; echo 'left by the installation' > egg.txt; echo built > built.so
"""


@pytest.fixture(scope="module")
def image(engine: DockerClient, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = f"swe-memory-test/testbed:{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"

    def build() -> None:
        folder = tmp_path_factory.mktemp("testbed")
        subprocess.run(["bash", "-ec", BEGINNING], cwd=folder, check=True)
        repository_image(engine, base_image, name, folder)

    return once(engine, name, build)


@pytest.fixture(scope="module")
def shared_bed(engine: DockerClient, image: str) -> Iterator[tuple[DockerEnvironment, ContainerWorkdir]]:
    with DockerEnvironment(engine, image, labels=Labels("test")) as environment:
        base = environment.execute("git rev-parse HEAD^").output.strip()
        yield environment, prepare_container(environment, base)


@pytest.fixture
def bed(shared_bed: tuple[DockerEnvironment, ContainerWorkdir]) -> tuple[DockerEnvironment, ContainerWorkdir]:
    """The prepared folder as it was at first; the container is used again."""
    environment, testbed = shared_bed
    done = environment.container.run(
        """
        if [ ! -d /first ]; then mkdir /first; cp -a /testbed /first/testbed; cp -a /.swe-memory /first/store; fi
        rm -rf /testbed /.swe-memory && cp -a /first/testbed /testbed && cp -a /first/store /.swe-memory
        """,
        seconds=60,
    )
    assert done.returncode == 0
    return environment, testbed


def do(environment: DockerEnvironment, command: str) -> None:
    done = environment.execute(command)
    assert done.returncode == 0, done


def applied(environment: DockerEnvironment, patch: str) -> None:
    """The grader's side: the patch is applied to the folder as the image has it."""
    environment.container.put("/patch.diff", patch.encode("utf-8"))
    do(environment, "cd /; rm -rf /testbed; cp -a /first/testbed /testbed; cd /testbed; git apply --binary /patch.diff")


def test_the_patch_of_an_untouched_folder_is_empty_whatever_its_builder_left_in_it(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    _, testbed = bed
    assert testbed.patch() == ""
    assert testbed.record()["setup"] == {"count": 1, "names": ["a.py"]} and testbed.hidden.untracked == 1


def test_the_patch_holds_every_kind_of_change_and_applies_to_the_image(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    change = r"""
        printf 'a = 2' > a.py; echo 'b = 2' > b.py; rm package/c.py; mkdir 'new folder'; echo "ü = '\u2028'" > 'new folder/ü.py'
        printf 'one\r\ntwo\r\nthree\r\n' > crlf.txt; printf 'caf\351 au lait\n' > latin.txt; printf '\351\n' > $'odd\351name'; printf '\0\1\2' > binary.bin
        : > empty.txt; echo 'edited' > egg.txt; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh; ln -s a.py link; rm .gitignore; ln -s a.py .gitignore
    """
    do(environment, change)
    patch = testbed.patch()
    patch.encode("utf-8")
    assert patch.endswith("\n") and patch == testbed.patch()
    digest = "find . -path ./.git -prune -o ! -type d -printf '%M %p %l\n' | sort; find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"
    expected = environment.execute(digest).output
    applied(environment, patch)
    assert environment.execute(digest).output == expected


def test_the_patch_is_the_same_whatever_the_agent_commits_or_does_to_its_repository(
    bed: tuple[DockerEnvironment, ContainerWorkdir],
) -> None:
    environment, testbed = bed
    do(environment, "echo 'a = 2' > a.py; echo 'd = 1' > d.py; rm package/c.py")
    expected = testbed.patch()
    assert "+a = 2\n" in expected and "d.py" in expected and "package/c.py" in expected and "b.py" not in expected and "egg" not in expected
    for command in (
        "git add -A; git commit -qm mine",
        "git checkout -q -b other; git rm -q --cached b.py a.py; git gc -q --prune=now",
        "git stash -q; git stash pop -q; cp b.py egg.txt /tmp; git reset -q --hard HEAD^; cp /tmp/b.py /tmp/egg.txt .; "
        "echo 'a = 2' > a.py; echo 'd = 1' > d.py; rm -f package/c.py",
        "echo '[[' > .git/config; echo rubbish > .git/index",
        "rm -rf .git",
    ):
        environment.execute(command)
        assert testbed.patch() == expected, command


def test_ignored_files_and_nested_repositories_stay_out_and_hide_nothing(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    do(
        environment,
        "echo more >> built.so; echo '*.log' >> .gitignore; echo x > x.log; mkdir vendored; cd vendored; git init -q; echo x > x.py; "
        "cd ../package; git init -q; echo 'c = 2' > c.py",
    )
    patch = testbed.patch()
    assert "+c = 2\n" in patch and "+*.log\n" in patch
    assert "vendored" not in patch and "x.log" not in patch and "built.so" not in patch


def test_the_patch_runs_nothing_that_a_hostile_repository_asks_for(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    do(
        environment,
        r"""
        printf '#!/bin/sh\ntouch /sprung\ncat\n' > /trap.sh; chmod +x /trap.sh
        for name in core.fsmonitor diff.external diff.evil.textconv diff.evil.command filter.evil.clean filter.evil.process core.pager; do
            git config $name /trap.sh; git config --file /root/.gitconfig $name /trap.sh
        done
        mkdir -p .git/hooks; ln -s /trap.sh .git/hooks/post-index-change; git config diff.noprefix true; git config core.worktree /
        echo '* diff=evil filter=evil text eol=crlf' > .gitattributes; echo '* diff=evil filter=evil' > .git/info/attributes
        echo 'a = 2' > a.py; rm -f /sprung
        """,
    )
    patch = testbed.patch()
    assert "+a = 2\n" in patch and "--- a/a.py\n" in patch and "b.py" not in patch
    assert environment.execute("ls /sprung").returncode != 0


DOINGS = {
    "a fifo for a tracked file": "rm a.py; mkfifo a.py",
    "fifos and devices beside it": "mkfifo x y; mkdir d; mkfifo d/z; mknod n c 1 3",
    "a fifo for the list of ignored files": "rm .gitignore; mkfifo .gitignore .gitattributes",
    "nothing readable": "mkdir d; echo 1 > d/f; chmod 000 a.py d/f d .git .",
    "a git folder that lies": "rm -rf .git; echo 'gitdir: /nowhere' > .git",
    "locks": "touch .git/index.lock /.swe-memory/patch.index.lock /.swe-memory/start.git/index.lock; mkdir .git/HEAD.lock",
    "names that git refuses": "mkdir .GIT; echo x > .GIT/config; echo x > git~1",
    "folders without end": "d=$(printf 'dddddddddddddddd/%.0s' {1..200}); mkdir -p $d; cd $d; mkdir -p $d; cd $d; echo x > f",
    "a folder for a file and a file for a folder": "rm a.py; mkdir a.py; echo x > a.py/x; rm -r package; ln -s package package",
    "links into nowhere and into a ring": "ln -s loop loop; ln -s /nowhere n; ln -s / root",
    "our own files": "rm -rf /.swe-memory",
    "no git": "rm $(command -v git)",
    "nothing at all": "find . -mindepth 1 -delete",
    "no folder": "cd /; rm -rf /testbed",
    "a link for the folder": "cd /; mv /testbed /aside; ln -s /aside /testbed",
    "a file for the folder": "cd /; rm -rf /testbed; echo x > /testbed",
}


@pytest.mark.parametrize("command", DOINGS.values(), ids=DOINGS.keys())
def test_no_doing_of_an_agent_makes_its_patch_a_failure_of_the_machine(
    bed: tuple[DockerEnvironment, ContainerWorkdir], command: str
) -> None:
    environment, testbed = bed
    do(environment, "echo 'edited = 1' > edited.py; cp $(command -v git) /git")
    environment.execute(command)
    try:
        patch = testbed.patch()
    except PatchRefused as error:
        assert error.status in ("PatchUnreadable", "WorkdirReplaced") and not isinstance(error, InfraError)
        assert command.startswith(("cd /", "rm -rf /.swe-memory", "rm $(", "mkdir .GIT"))
    else:
        assert "+edited = 1\n" in patch or command.startswith("find")
    finally:
        environment.container.run("chmod 755 /testbed; [ -x /usr/bin/git ] || cp /git /usr/bin/git", seconds=60)


PROGRAMS = ["cat", "comm", "cp", "find", "git", "grep", "head", "mkdir", "rm", "sed", "sort", "stat", "xargs"]


def test_a_program_that_an_agent_removed_or_replaced_costs_no_part_of_a_patch(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    do(
        environment,
        "[ -d /programs ] || cp -a /usr/bin /programs; echo 'edited = 1' > a.py; echo 'new = 1' > new.py; printf '\\351\\n' > odd.txt",
    )
    whole = testbed.patch()
    assert "new.py" in whole and "odd.txt" in whole
    try:
        for number, program in enumerate(PROGRAMS):
            for change in ("ln -sf true", ("rm", "chmod -x", "ln -sf false", "ln -sf tac")[number % 4]):
                do(environment, f"PATH=/programs; cp -a --remove-destination /programs/. /usr/bin/; {change} /usr/bin/{program}")
                try:
                    assert testbed.patch() == whole, (program, change)
                except PatchRefused as refused:
                    assert refused.status == "PatchUnreadable" and program in str(refused), (program, change)
    finally:
        environment.container.run("PATH=/programs; cp -a --remove-destination /programs/. /usr/bin/", seconds=60)
    assert testbed.patch() == whole


def test_what_is_too_large_is_refused_before_git_reads_it(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    for command in (
        f"truncate -s {MOST_BYTES + 1} new.bin",
        f"rm new.bin; truncate -s {MOST_BYTES + 100} a.py",
        f"git checkout -q a.py; mkdir many; cd many; seq {MOST_NEW_FILES + 1} | xargs touch",
        "rm -r many; head -c 2000000 /dev/zero > .gitignore",
    ):
        do(environment, command)
        with pytest.raises(PatchRefused) as refused:
            testbed.patch()
        assert refused.value.status == "PatchTooLarge", command


def test_what_an_agent_left_running_changes_nothing_any_more(bed: tuple[DockerEnvironment, ContainerWorkdir]) -> None:
    environment, testbed = bed
    do(environment, "setsid bash -c 'while :; do echo $RANDOM >> a.py; sleep 0.01; done' >/dev/null 2>&1 &")
    assert testbed.patch() == testbed.patch()


def test_a_container_that_is_gone_is_the_machines_failure(engine: DockerClient, image: str) -> None:
    with DockerEnvironment(engine, image, labels=Labels("test")) as environment:
        testbed = prepare_container(environment, environment.execute("git rev-parse HEAD^").output.strip())
        engine.api.kill(environment.container.id)
        with pytest.raises(InfraError, match="ended from outside"):
            testbed.patch()
