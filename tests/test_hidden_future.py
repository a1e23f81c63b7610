"""The repository in a container: nothing later than the base can be found in it, it stays a working repository, and the record says what is gone."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from containers import build_image, once

from harness.environments.docker import DockerEnvironment, Labels
from harness.hidden_future import HiddenFuture, hide_future
from swe_memory.errors import InfraError, UsageError

if TYPE_CHECKING:
    from docker import DockerClient

FIX = "THE-FIX-OF-TOMORROW"
BASE_TIME = "2020-06-01T00:00:00Z"
Open = Callable[[str], DockerEnvironment]

# Says where the fix can still be read: in any file, in what any loose object unpacks to, in any object of any pack.
SEARCH = """
import os, pathlib, subprocess, sys, tempfile, zlib
fix = sys.argv[1].encode()
found = []
for top in sys.argv[2:]:
    for folder, folders, names in os.walk(top):
        for path in (pathlib.Path(folder, name) for name in names):
            if not path.is_file():
                continue
            content = path.read_bytes()
            try:
                content += zlib.decompress(content)
            except zlib.error:
                pass
            if path.suffix == ".pack":
                with tempfile.TemporaryDirectory() as scratch:
                    subprocess.run(["git", "init", "-q", "--bare", scratch], check=True)
                    subprocess.run(["git", "-C", scratch, "unpack-objects", "-q"], input=content, check=True)
                    content += subprocess.run(["git", "-C", scratch, "cat-file", "--batch", "--batch-all-objects"], capture_output=True, check=True).stdout
            if fix in content or fix in os.fsencode(path):
                found.append(str(path))
print(len(found), *found)
"""


def git(*arguments: str, cwd: Path, when: str = BASE_TIME, committer: str = "dev@example.invalid", check: bool = True) -> str:
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Dev",
        "GIT_AUTHOR_EMAIL": "dev@example.invalid",
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": "Dev",
        "GIT_COMMITTER_EMAIL": committer,
        "GIT_COMMITTER_DATE": when,
    }
    return subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments], cwd=cwd, env=variables, capture_output=True, check=check, text=True
    ).stdout.strip()


def commit(folder: Path, message: str, *, when: str = BASE_TIME, committer: str = "dev@example.invalid", **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    git("add", "-A", cwd=folder)
    git("commit", "-qm", message, cwd=folder, when=when, committer=committer)
    return git("rev-parse", "HEAD", cwd=folder)


def with_future(folder: Path, part: Path) -> str:
    """A repository whose fix lies in every place where git can keep one; gives back the base commit, which is checked out."""
    folder.mkdir()
    git("init", "-qb", f"trunk-{FIX}", cwd=folder)
    git("submodule", "--quiet", "add", str(part), "part", cwd=folder)
    git("config", "--file", ".gitmodules", "submodule.part.url", "https://example.invalid/part.git", cwd=folder)
    (folder / ".gitignore").write_text("*.so\n", encoding="utf-8")
    commit(folder, "first", a="a = 1\n", **{f"file{number}": f"file = {number}\n" for number in range(20)})
    git("tag", "v1", cwd=folder)
    base = commit(folder, "second", b="b = 1\n")
    git("tag", "-a", "v2", "-m", "release two", cwd=folder)
    git("-C", "part", "checkout", "-q", "-b", f"later-{FIX}", cwd=folder)
    commit(folder / "part", f"later {FIX}", p=f"# {FIX}\n")
    git("-C", "part", "checkout", "-q", "@{-1}", cwd=folder)
    commit(folder, f"later {FIX}", when="2020-06-02T00:00:00Z", a=f"# {FIX} commit\n")
    git("tag", "v3", cwd=folder)
    git("tag", "-a", f"v4-{FIX}", "-m", FIX, cwd=folder)
    git("tag", "-a", "late", "-m", f"{FIX} said of the base later on", base, cwd=folder, when="2099-01-01T00:00:00Z")
    git("tag", "-a", "of-a-tag", "-m", "a tag of a tag of what comes later", "v3", cwd=folder)
    git("notes", "add", "-m", f"{FIX} note", base, cwd=folder)
    git("checkout", "-q", "-b", f"fix-{FIX}", base, cwd=folder)
    commit(folder, f"branch {FIX}", a=f"# {FIX} branch\n")
    git("worktree", "add", "-q", "--detach", str(folder.parent / "linked"), cwd=folder)
    git("checkout", "-q", "--detach", base, cwd=folder)
    commit(folder, f"lost {FIX}", a=f"# {FIX} only in the reflog\n")
    git("update-ref", "ORIG_HEAD", "HEAD", cwd=folder)
    git("checkout", "-q", "-B", f"trunk-{FIX}", base, cwd=folder)
    (folder / "a.py").write_text(f"# {FIX} stashed\n", encoding="utf-8")
    git("stash", "push", "-m", FIX, cwd=folder)
    (folder / "loose.txt").write_text(f"{FIX} loose\n", encoding="utf-8")
    git("hash-object", "-w", "loose.txt", cwd=folder)
    (folder / "loose.txt").write_text(f"{FIX} in the index\n", encoding="utf-8")
    git("add", "loose.txt", cwd=folder)
    (folder / "loose.txt").unlink()
    git("remote", "add", "origin", f"https://example.invalid/{FIX}.git", cwd=folder)
    git("replace", base, f"fix-{FIX}", cwd=folder)
    git("update-ref", f"refs/remotes/origin/{FIX}", f"fix-{FIX}", cwd=folder)
    (folder / ".git" / "FETCH_HEAD").write_text(f"{git('rev-parse', 'v3', cwd=folder)}\t\t{FIX}\n", encoding="utf-8")
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    (folder / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\necho {FIX}\n", encoding="utf-8")
    (folder / ".git" / "info" / "exclude").write_text("*.local\n", encoding="utf-8")
    git("repack", "-q", cwd=folder)
    (folder / "module.so").write_text("built\n", encoding="utf-8")
    (folder / "notes.local").write_text("mine\n", encoding="utf-8")
    return base


def as_the_official_images(folder: Path, origin: Path, base: str) -> None:
    """A clone whose builder changed files and committed them on top of the base, and left files that git does not know."""
    git("clone", "-q", "--no-recurse-submodules", str(origin), str(folder), cwd=folder.parent)
    git("reset", "-q", "--hard", base, cwd=folder)
    commit(folder, "SWE-bench", when="2025-01-01T00:00:00Z", committer="setup@swebench.config", setup=f"pinned = '{FIX[:7]}'\n")
    git("gc", "-q", "--prune=now", cwd=folder)
    (folder / "egg.txt").write_text("left by the installation\n", encoding="utf-8")
    (folder / "b.py").write_text("b = 1  # edited and not committed\n", encoding="utf-8")


@pytest.fixture(scope="session")
def base_commit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of repositories, as they are to lie in the image, and the base commit of all of them."""
    top = tmp_path_factory.mktemp("image")
    part = top / "source-of-part"
    part.mkdir()
    git("init", "-qb", "main", cwd=part)
    commit(part, "part", p="p = 1\n")
    base = with_future(top / "testbed", part)
    git("clone", "-q", "--bare", str(top / "testbed"), str(top / "bare.git"), cwd=top)
    git("clone", "-q", "--depth=1", f"file://{top}/testbed", str(top / "shallow-later"), "-b", f"fix-{FIX}", cwd=top)
    git("clone", "-q", "--depth=1", f"file://{top}/testbed", str(top / "shallow"), "-b", f"trunk-{FIX}", cwd=top)
    as_the_official_images(top / "official", top / "testbed", base)
    git("clone", "-q", "--shared", str(top / "testbed"), str(top / "borrowing"), cwd=top)
    git("clone", "-q", str(top / "testbed"), str(top / "later"), cwd=top)
    git("checkout", "-q", f"origin/fix-{FIX}", cwd=top / "later")
    (top / "plain").mkdir()
    other = top / "other-project"
    other.mkdir()
    git("init", "-qb", "main", cwd=other)
    commit(other, "another project", z="z = 1\n")
    shutil.rmtree(part)
    return top, base


@pytest.fixture(scope="session")
def image(engine: DockerClient, base_image: str, base_commit: tuple[Path, str]) -> str:
    top, base = base_commit
    name = f"swe-memory-test/future:{hashlib.sha256(Path(__file__).read_bytes() + base.encode()).hexdigest()[:12]}"

    def build() -> None:
        folders = {path.name: path for path in sorted(top.iterdir())}
        copies = "".join(f"COPY {name} {'/testbed' if name == 'testbed' else f'/srv/{name}'}\n" for name in folders)
        # What names its own place has to name the one in the image.
        moved = f"RUN sed -i 's#{top}/#/srv/#; s#/srv/testbed#/testbed#' $(grep -rlIF {top}/ /testbed/.git /srv/*/.git) || true\n"
        build_image(engine, name, f"FROM {base_image}\n{copies}{moved}", folders)

    return once(engine, name, build)


@pytest.fixture
def opened(engine: DockerClient, image: str) -> Iterator[Open]:
    made: list[DockerEnvironment] = []

    def open_at(root: str) -> DockerEnvironment:
        made.append(DockerEnvironment(engine, image, labels=Labels("test"), workdir=root))
        return made[-1]

    yield open_at
    for environment in made:
        environment.close()


def said(environment: DockerEnvironment, command: str) -> str:
    done = environment.execute(command)
    assert done.returncode == 0, (command, done)
    return done.output


def search(environment: DockerEnvironment, *tops: str) -> str:
    return said(environment, f"python - {FIX} {' '.join(tops)} <<'END'\n{SEARCH}\nEND")


@pytest.fixture(scope="module")
def hidden(engine: DockerClient, image: str, base_commit: tuple[Path, str]) -> Iterator[tuple[DockerEnvironment, HiddenFuture]]:
    with DockerEnvironment(engine, image, labels=Labels("test")) as environment:
        assert int(search(environment, "/testbed/.git").split()[0]) > 10, "the image does not hold what is looked for"
        yield environment, hide_future(environment.container, base_commit[1])


def test_the_fix_is_in_no_file_and_no_object_of_the_container(hidden: tuple[DockerEnvironment, HiddenFuture]) -> None:
    environment, _ = hidden
    assert search(environment, "/testbed", "/.swe-memory", "/srv/bare.git", "/srv/shallow-later/.git", "/srv/borrowing/.git") == "0\n"


def test_the_fix_is_in_no_answer_of_git(hidden: tuple[DockerEnvironment, HiddenFuture]) -> None:
    environment, _ = hidden
    for command in (
        "log --all --reflog -p",
        "reflog --all",
        "stash list -p",
        "branch -a -v",
        "tag -n9",
        "for-each-ref",
        "fsck --lost-found --unreachable --root --full",
        "remote -v",
        "config --list",
        "notes list",
        "worktree list",
        "status --porcelain --ignored",
        "ls-files -s",
        "submodule foreach --quiet 'git log --all --reflog -p; git branch -a'",
        "cat-file --batch --batch-all-objects",
    ):
        assert FIX not in environment.execute(f"git {command}").output, command


def test_the_repository_works_and_its_versions_can_be_told(
    hidden: tuple[DockerEnvironment, HiddenFuture], base_commit: tuple[Path, str]
) -> None:
    environment, _ = hidden
    assert said(environment, "git rev-parse HEAD").strip() == base_commit[1]
    assert said(environment, "git describe; git describe --tags --long --match 'v*'; git tag").split() == [
        "v2",
        f"v2-0-g{base_commit[1][:7]}",
        "v1",
        "v2",
    ]
    assert said(environment, "git log --format=%s").split() == ["second", "first"]
    assert said(environment, "git status --porcelain --branch") == "## main\n"
    assert said(environment, "git status --porcelain --ignored").split() == ["!!", "module.so", "!!", "notes.local"]
    assert said(environment, "git submodule status").split()[1:] == ["part", "(heads/main)"]
    assert said(environment, "git fsck --strict 2>/dev/null") == ""
    assert (
        said(environment, "echo 'a = 2' > a.py; git commit -qam mine; git show --stat --format=%an; git reset -q --hard HEAD^").split()[0]
        == "Agent"
    )


def test_what_is_gone_is_written_down(hidden: tuple[DockerEnvironment, HiddenFuture], base_commit: tuple[Path, str]) -> None:
    _, done = hidden
    assert done.head == done.base == base_commit[1]
    assert {"refs/stash", "refs/notes/commits", "refs/tags/v3", "refs/tags/late", "refs/tags/of-a-tag", f"refs/heads/fix-{FIX}"} <= set(
        done.refs
    )
    assert not {"refs/tags/v1", "refs/tags/v2"} & set(done.refs)
    assert {"ORIG_HEAD", "FETCH_HEAD"} <= set(done.pseudo_refs)
    assert len(done.worktrees) == 1 and done.submodules == ("part",) and done.emptied_submodules == ()
    whole = git("cat-file", "--batch-all-objects", "--batch-check", cwd=base_commit[0] / "testbed").count("\n") + 1
    assert done.objects == whole - done.kept > 10
    assert done.reflog > 5 and done.untracked == 0 and done.setup == ()
    assert {"/srv/bare.git", "/srv/shallow-later/.git", "/srv/official/.git", "/srv/borrowing/.git"} <= set(done.copies)
    assert "/srv/other-project/.git" not in done.copies
    record = done.as_record()
    assert record["refs"]["count"] == len(done.refs) and record["objects"] == done.objects


def test_the_commit_of_an_images_builder_keeps_its_files_and_nothing_else(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/srv/official")
    done = hide_future(environment.container, base_commit[1], root="/srv/official")
    assert done.setup == ("setup.py",) and done.untracked == 1 and done.head != base_commit[1]
    assert said(environment, "git log --format='%s %ae %ct'").split("\n")[0] == "Environment setup setup@example.invalid 1590969600"
    assert said(environment, "git rev-parse HEAD^").strip() == base_commit[1]
    assert said(environment, "git status --porcelain").split("\n")[:2] == [" M b.py", "?? egg.txt"]
    assert search(environment, "/srv/official", "/.swe-memory") == "0\n"


def test_a_repository_that_borrows_its_objects_gets_its_own_and_the_lender_goes(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/srv/borrowing")
    done = hide_future(environment.container, base_commit[1], root="/srv/borrowing")
    assert "/testbed/.git" in done.copies
    assert said(environment, "git log --format=%s; ls /testbed/.git 2>&1 || true").split()[:2] == ["second", "first"]
    assert search(environment, "/srv/borrowing", "/testbed/.git", "/.swe-memory") == "0\n"


def test_a_worktree_of_a_clone_becomes_a_repository_of_its_own(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/testbed")
    said(environment, f"GIT_NO_REPLACE_OBJECTS=1 git worktree add -q --detach /linked {base_commit[1]}")
    done = hide_future(environment.container, base_commit[1], root="/linked")
    assert "/testbed/.git" in done.copies
    assert said(environment, "cd /linked && git status --porcelain --branch && git log --format=%s").split() == [
        "##",
        "main",
        "second",
        "first",
    ]
    assert search(environment, "/linked", "/testbed/.git", "/.swe-memory") == "0\n"


def test_a_shallow_clone_stays_one(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/srv/shallow")
    done = hide_future(environment.container, base_commit[1], root="/srv/shallow")
    assert done.kept > 0
    assert said(environment, "git log --format=%s; git status --porcelain; git fsck 2>&1").split() == ["second"]
    assert search(environment, "/srv/shallow", "/.swe-memory") == "0\n"


def test_a_copy_for_another_user_belongs_to_that_user(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/testbed")
    said(environment, "chown -R agent:agent /testbed")
    hide_future(environment.container, base_commit[1])
    environment.container.user = "agent"
    assert said(environment, "id -un; echo 'a = 2' > a.py && git commit -qam mine && git log -1 --format=%s").split() == ["agent", "mine"]


BUILDERS_STATES = {
    "flags": "git update-index --assume-unchanged file1.py; git update-index --skip-worktree file2.py; echo 1 >> file1.py; echo 2 >> file2.py; rm file3.py; "
    "git update-index --skip-worktree file3.py",
    "sparse": "git config core.sparseCheckout true; printf '/*\\n!/file3.py\\n' > .git/info/sparse-checkout; git read-tree -mu HEAD; [ ! -e file3.py ]",
    "cone": "mkdir -p in/side out; git sparse-checkout set in >/dev/null 2>&1",
    "staged": "echo staged > file4.py; echo new > $'new\\nand odd.txt'; ln -s a.py link; chmod +x file5.py; git add .; git rm -q file6.py; "
    "git rm -q --cached file8.py; echo more >> file9.py",
    "filter": "git config filter.ours.clean 'sed s/local/common/'; git config filter.ours.smudge cat; echo 'file10.py filter=ours' > .git/info/attributes; "
    "echo local > file10.py; git add file10.py; git show :file10.py | grep -q common",
}


@pytest.mark.parametrize("state", BUILDERS_STATES.values(), ids=BUILDERS_STATES.keys())
def test_what_an_images_builder_told_git_of_the_work_tree_stays_told(opened: Open, base_commit: tuple[Path, str], state: str) -> None:
    environment = opened("/srv/official")
    said(environment, f"{state}; echo '# {FIX}' > file7.py; git add file7.py; git show HEAD:file7.py > file7.py")
    look = "git ls-files -v; git config --get-regexp 'filter|core.sparse'; git status --porcelain; git diff; git diff --cached"
    said(environment, f"cp -a . /before; cd /before; git reset -q file7.py; {{ {look}; }} > /told")
    done = hide_future(environment.container, base_commit[1], root="/srv/official")
    assert said(environment, f"{{ {look}; }} | diff /told - || true") == ""
    assert search(environment, "/srv/official", "/.swe-memory") == "0\n" and done.kept > 0
    assert said(environment, "git fsck --strict 2>&1; git stash -q; git stash pop -q; ls .git/objects/info") == ""


@pytest.mark.parametrize(("owner", "user"), [("agent", ""), ("agent", "0:0"), ("root", "agent"), ("123", "1000:1000")])
def test_git_works_for_whom_commands_run_as_whoever_owns_the_folder(
    opened: Open, base_commit: tuple[Path, str], owner: str, user: str
) -> None:
    environment = opened("/testbed")
    said(environment, f"chown -R {owner} /testbed; echo 'a = 2' > a.py")
    environment.container.user = user
    assert "a = 2" in said(environment, "git diff")
    hide_future(environment.container, base_commit[1])
    assert "a = 2" in said(environment, "git diff")
    assert "a = 2" in said(environment, "unset ${!GIT_CONFIG_@}; git diff")  # versions of git before 2.38 do not take it from variables


@pytest.mark.parametrize(
    ("root", "before", "message"),
    [
        ("/srv/later", "true", "has commit .* checked out"),
        ("/srv/plain", "true", "no git repository"),
        ("/srv/other-project", "true", "has no commit"),
        ("/testbed", "git checkout -q --orphan nothing", "nothing is checked out"),
        ("/testbed", "rm -r .git/objects/pack .git/objects/??", "has no commit"),
        (
            "/testbed",
            "rm .git/objects/pack/* .git/objects/$(git --no-replace-objects rev-parse HEAD:a.py | sed 's#..#&/#')",
            "could not be hidden: ",
        ),
        ("/testbed", "echo > .git/HEAD", "no git repository"),
    ],
)
def test_what_cannot_be_hidden_is_the_machines_failure_and_says_why(
    opened: Open, base_commit: tuple[Path, str], root: str, before: str, message: str
) -> None:
    environment = opened(root)
    said(environment, before)
    with pytest.raises(InfraError, match=message):
        hide_future(environment.container, base_commit[1], root=root)


PROGRAMS = [
    "cat",
    "chmod",
    "chown",
    "comm",
    "cp",
    "cut",
    "find",
    "git",
    "head",
    "mkdir",
    "mv",
    "realpath",
    "rm",
    "sed",
    "sort",
    "stat",
    "wc",
    "xargs",
]
LESSER = {"comm": "z", "find": "print0", "head": "z", "sed": "z", "sort": "z", "stat": "printf", "xargs": "0", "realpath": "e"}


def test_an_image_that_lacks_a_program_is_refused_by_the_programs_name_and_never_passes_as_clean(
    opened: Open, base_commit: tuple[Path, str]
) -> None:
    environment = opened("/testbed")
    said(environment, "cp -a /usr/bin /programs")
    for program in PROGRAMS:
        changes = [f"rm /usr/bin/{program}"]
        if program != "chown":  # one that does nothing leaves what is root's to root
            changes.append(f"printf '#!/programs/bash\\n' > /usr/bin/{program}")
        if option := LESSER.get(program):  # as another maker's program of that name is
            changes.append(
                f"printf '#!/programs/bash\\n[[ $* != *-*{option}* ]] && exec /programs/{program} \"$@\"\\n' > /usr/bin/{program}"
            )
        for change in changes:
            said(environment, f"PATH=/programs; {change}")
            with pytest.raises(InfraError, match=f"lacks what hiding the future needs: (.*, )?{program}"):
                hide_future(environment.container, base_commit[1])
            said(environment, f"/programs/rm -f /usr/bin/{program}; /programs/cp -a /programs/{program} /usr/bin/")
    said(environment, "rm /usr/bin/find /usr/bin/comm; printf '#!/programs/bash\\n' > /usr/bin/comm; chmod +x /usr/bin/comm")
    with pytest.raises(InfraError, match=r"^image some lacks what hiding the future needs: find\n"):
        hide_future(environment.container, base_commit[1], image="some")


def test_a_search_that_fails_is_no_empty_one(opened: Open, base_commit: tuple[Path, str]) -> None:
    environment = opened("/testbed")
    said(
        environment,
        "cp /usr/bin/find /find; printf '#!/bin/bash\\n[[ $* != */dev* ]] && exec /find \"$@\"\\necho torn >&2; exit 1' > /usr/bin/find",
    )
    with pytest.raises(InfraError, match="searched for copies: torn"):
        hide_future(environment.container, base_commit[1])


# Copies of the history that git cannot open as they lie there, or that are no repository at all. /elsewhere is left as it is.
COPIES = """
set -e
export GIT_NO_REPLACE_OBJECTS=1
cd /srv/bare.git; git repack -qadf; git prune-packed; mkdir -p /elsewhere
for name in extension broken-config head-link no-head no-refs renamed of-links; do cp -a /srv/bare.git /opt/$name; done
cd /opt
git -C extension config core.repositoryformatversion 1; git -C extension config extensions.unheard true
echo '[[[' >> broken-config/config
rm head-link/HEAD; ln -s refs/heads/none head-link/HEAD
rm no-head/HEAD
mkdir bare-objects; mv no-refs/objects bare-objects/; rm -r no-refs
mkdir -p renamed-objects/beside; git init -q --bare scratch; git -C scratch unpack-objects -q < $(echo renamed/objects/pack/*.pack)
mv scratch/objects/?? renamed-objects/; rm -r scratch renamed
mv of-links/objects of-links/aside; ln -s aside of-links/objects
mkdir packs pack-alone index-alone increment
cp /srv/bare.git/objects/pack/*.pack /srv/bare.git/objects/pack/*.idx packs/
cp packs/*.pack pack-alone/some.pack; cp packs/*.idx index-alone/some.idx; echo mine > packs/README
git -C /srv/bare.git bundle create -q /opt/whole.bundle --all
git -C /srv/bare.git bundle create -q /opt/part.bundle v3 ^v2
mkdir clone; cp -a /srv/bare.git clone/.git; cd clone; git config core.bare false; echo later > later.txt; git add .
git -c user.name=n -c user.email=e commit -qm later
git rev-list --objects HEAD^..HEAD | cut -d ' ' -f 1 | git pack-objects -q ../increment/pack > /dev/null; cd ..; rm -rf clone
cd /elsewhere
cp -a /srv/other-project/.git other; rm other/HEAD; git -C /srv/other-project bundle create -q /elsewhere/other.bundle --all
git -C /srv/other-project pack-objects --all -q /elsewhere/pack < /dev/null > /dev/null
echo 'of another program' | tee font.pack mime.idx site.bundle > /dev/null
printf 'PACK\\0\\0\\0\\2 torn' > torn.pack; printf '# v2 git bundle\\n\\nPACK torn' > torn.bundle
find . -type f -print0 | sort -z | xargs -0 sha256sum > /before
cd /testbed; mkdir data; cp /opt/packs/*.pack data/as-tracked.pack; cp -a /opt/no-head data/no-head.git; rm -r data/no-head.git/hooks
git add -f data; git -c user.name=n -c user.email=e commit -qm 'a test of this project works on its own history' data
cp /opt/packs/*.pack data/not-tracked.pack
"""


def test_copies_go_whatever_is_written_around_their_objects_and_nothing_else_does(opened: Open) -> None:
    environment = opened("/testbed")
    said(environment, COPIES)
    base = said(environment, "git rev-parse HEAD").strip()
    done = hide_future(environment.container, base)
    left = said(environment, "find /opt -path /opt/miniconda3 -prune -o ! -type d -print")
    assert left == "/opt/packs/README\n"
    names = {path.split("/")[2] for path in done.copies if path.startswith("/opt/")}
    assert names == {
        *("extension", "broken-config", "head-link", "no-head", "bare-objects", "renamed-objects", "of-links"),
        *("packs", "pack-alone", "index-alone", "increment", "whole.bundle", "part.bundle"),
    }
    assert "/testbed/data/not-tracked.pack" in done.copies
    assert said(environment, "ls data; git status --porcelain").split() == ["as-tracked.pack", "no-head.git"]
    assert set(done.undecided) == {"/elsewhere/torn.pack", "/elsewhere/torn.bundle"} and done.as_record()["undecided"]["count"] == 2
    assert not any(path.startswith("/elsewhere") for path in done.copies)
    said(environment, "cd /elsewhere; find . -type f -print0 | sort -z | xargs -0 sha256sum | diff - /before")


@pytest.fixture(scope="session")
def image_with_volumes(engine: DockerClient, image: str) -> str:
    """The image with a copy in a volume, whose repository lies in another one."""
    name = image.replace("/future:", "/volumes:")
    return once(
        engine, name, lambda: build_image(engine, name, f"FROM {image}\nRUN cp -a /srv/bare.git /opt/cache\nVOLUME /opt/cache /testbed\n")
    )


def test_volumes_are_searched_and_may_hold_the_repository(
    engine: DockerClient, image_with_volumes: str, base_commit: tuple[Path, str]
) -> None:
    with DockerEnvironment(engine, image_with_volumes, labels=Labels("test")) as environment:
        said(environment, "grep -q ' /opt/cache ' /proc/mounts; grep -q ' /testbed ' /proc/mounts; [ -d /opt/cache/objects ]")
        done = hide_future(environment.container, base_commit[1])
        assert {"/opt/cache", "/srv/bare.git"} <= set(done.copies)
        assert search(environment, "/testbed", "/opt/cache", "/.swe-memory") == "0\n"
        assert said(environment, "git status --porcelain --branch; git log --format=%s").split() == ["##", "main", "second", "first"]


def test_a_commit_has_to_be_named_in_full(opened: Open) -> None:
    with pytest.raises(UsageError, match="full commit hash"):
        hide_future(opened("/testbed").container, "HEAD")
