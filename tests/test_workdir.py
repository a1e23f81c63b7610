"""The agent's copy of the repository: nothing later than the base can be found in it, and the patch is what changed since."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import git as gitpython
import pytest

from harness.files import remove_tree
from harness.workdir import MOST_BYTES, MOST_NEW_FILES, PatchRefused, Workdir, prepare_workdir
from swe_memory.errors import InfraError, UsageError

FIX = "THE-FIX-OF-TOMORROW"


def run(*arguments: str, cwd: Path, check: bool = True, **variables: str) -> str:
    """Git as an agent would call it: with its own environment and without our guards."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", **variables}
    done = subprocess.run(["git", *arguments], cwd=cwd, env=environment, capture_output=True, check=check)
    return (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """A repository whose fix lies in every place where git can keep one, and the base commit before it."""
    folder = tmp_path / "source"
    repo = gitpython.Repo.init(folder, initial_branch="trunk")
    with repo.config_writer() as config:
        config.set_value("user", "name", "Dev")
        config.set_value("user", "email", "dev@example.invalid")

    def commit(message: str, **files: str) -> str:
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
            repo.index.add([f"{name}.py"])
        return str(repo.index.commit(message).hexsha)

    commit("first", a="a = 1\n")
    repo.create_tag("v1")
    base = commit("second", b="b = 1\n")
    repo.create_tag("v2", message="release two")
    commit(f"later {FIX}", a=f"# {FIX} commit\n")
    repo.create_tag("v3", message=FIX)
    repo.git.notes("add", "-m", f"{FIX} note", base)
    repo.git.checkout("-b", "fix-branch", base)
    commit(f"branch {FIX}", a=f"# {FIX} branch\n")
    repo.git.checkout("--detach", base)
    commit(f"lost {FIX}", a=f"# {FIX} only in the reflog\n")
    repo.git.checkout("trunk")
    (folder / "a.py").write_text(f"# {FIX} stashed\n", encoding="utf-8")
    repo.git.stash("push", "-m", FIX)
    (folder / "loose.txt").write_text(f"{FIX} loose\n", encoding="utf-8")
    repo.git.hash_object("-w", "loose.txt")
    (folder / "loose.txt").unlink()
    (folder / "a.py").write_text(f"# {FIX} in the index\n", encoding="utf-8")
    repo.git.add("a.py")
    repo.git.remote("add", "origin", f"https://example.invalid/{FIX}.git")
    with repo.git.custom_environment(GIT_COMMITTER_DATE="2099-01-01T00:00:00Z"):
        repo.git.tag("-a", "late", "-m", f"{FIX} said of the base later on", base)
    repo.git.replace(base, "fix-branch")
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n", encoding="utf-8")
    hook.chmod(0o755)
    repo.close()
    return folder, base


@pytest.fixture
def workdir(repository: tuple[Path, str], tmp_path: Path) -> Workdir:
    return prepare_workdir(repository[0], repository[1], tmp_path / "work")


def test_the_fix_is_in_no_answer_of_git(workdir: Workdir, repository: tuple[Path, str]) -> None:
    path = workdir.path
    for command in (
        ["log", "--all", "--reflog", "-p"],
        ["reflog", "--all"],
        ["stash", "list", "-p"],
        ["branch", "-a", "-v"],
        ["tag", "-n9"],
        ["for-each-ref"],
        ["show-ref"],
        ["fsck", "--lost-found", "--unreachable", "--root", "--full"],
        ["remote", "-v"],
        ["config", "--list"],
        ["notes", "list"],
        ["worktree", "list"],
        ["status"],
        ["grep", FIX, "HEAD"],
    ):
        answer = run(*command, cwd=path, check=False)
        assert FIX not in answer, command
        assert str(repository[0]) not in answer, command


def test_no_object_is_there_that_the_base_does_not_reach(workdir: Workdir) -> None:
    listed = run("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)", cwd=workdir.path).splitlines()
    reachable = set(run("rev-list", "--objects", "--no-object-names", workdir.base_commit, cwd=workdir.path).split())
    tags = {line.split()[0] for line in listed if line.endswith(" tag")}
    assert {line.split()[0] for line in listed} - tags == reachable
    for line in listed:
        assert FIX not in run("cat-file", "-p", line.split()[0], cwd=workdir.path)


def test_the_fix_is_in_no_file_of_the_git_folder(workdir: Workdir, repository: tuple[Path, str]) -> None:
    for file in workdir.path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            if "/objects/" in str(file) and len(file.name) == 38:
                content += zlib.decompress(content)
            assert FIX.encode() not in content, file
            assert str(repository[0]).encode() not in content, file
    assert not list((workdir.path / ".git").rglob("logs"))
    assert not (workdir.path / ".git" / "objects" / "info" / "alternates").exists()


def test_the_copy_is_an_ordinary_repository(workdir: Workdir, tmp_path: Path) -> None:
    path = workdir.path
    assert run("rev-parse", "HEAD", cwd=path).strip() == workdir.base_commit
    assert run("status", "--porcelain", "--branch", cwd=path) == "## main\n"
    assert run("log", "--format=%s", cwd=path).split() == ["second", "first"]
    assert run("describe", cwd=path).strip() == "v2"
    assert run("tag", cwd=path).split() == ["v1", "v2"]
    assert (path / "a.py").read_text(encoding="utf-8") == "a = 1\n"
    assert run("fsck", "--strict", cwd=path, check=False).strip() in ("", "notice: HEAD points to an unborn branch (main)")
    (path / "a.py").write_text("a = 2\n", encoding="utf-8")
    run("commit", "-qam", "mine", cwd=path)
    assert not (tmp_path / "hook-ran").exists()


def test_a_copy_can_be_made_of_a_copy_and_of_a_bare_repository(workdir: Workdir, tmp_path: Path) -> None:
    again = prepare_workdir(workdir.path, workdir.base_commit, tmp_path / "again")
    assert run("rev-parse", "HEAD^{tree}", cwd=again.path) == run("rev-parse", "HEAD^{tree}", cwd=workdir.path)
    run("clone", "-q", "--bare", str(workdir.path), str(tmp_path / "bare.git"), cwd=tmp_path)
    bare = prepare_workdir(tmp_path / "bare.git", workdir.base_commit, tmp_path / "from-bare")
    assert (bare.path / "b.py").is_file()


def test_repositories_with_long_object_names_work_too(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    run("init", "-q", "--object-format=sha256", cwd=source)
    (source / "a.py").write_text("a = 1\n", encoding="utf-8")
    run("add", ".", cwd=source)
    run("-c", "user.name=Dev", "-c", "user.email=dev@example.invalid", "commit", "-qm", "first", cwd=source)
    workdir = prepare_workdir(source, run("rev-parse", "HEAD", cwd=source).strip(), tmp_path / "work")
    (workdir.path / "a.py").write_text("a = 2\n", encoding="utf-8")
    assert "+a = 2\n" in workdir.patch()
    assert run("status", "--porcelain", cwd=workdir.path) == " M a.py\n"


def test_wrong_sources_and_commits_are_refused(repository: tuple[Path, str], tmp_path: Path) -> None:
    source, base = repository
    with pytest.raises(UsageError, match="no repository"):
        prepare_workdir(tmp_path / "nothing", base, tmp_path / "w")
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="not a git repository"):
        prepare_workdir(tmp_path / "plain", base, tmp_path / "w")
    with pytest.raises(UsageError, match="has no commit"):
        prepare_workdir(source, "0" * 40, tmp_path / "w")
    with pytest.raises(UsageError, match="full commit hash"):
        prepare_workdir(source, "HEAD", tmp_path / "w")
    with pytest.raises(UsageError, match="not empty"):
        prepare_workdir(source, base, source)
    assert not (tmp_path / "w").exists()


def test_hooks_and_the_file_system_monitor_are_off_in_the_copy(workdir: Workdir, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
    trap.chmod(0o755)
    # A user's own settings for all repositories, and hooks that a tool has put into the usual place.
    (tmp_path / "global").write_text(f"[core]\nhooksPath = {tmp_path}\nfsmonitor = {trap}\n", encoding="utf-8")
    (workdir.path / ".git" / "hooks").mkdir(exist_ok=True)
    for folder in (tmp_path, workdir.path / ".git" / "hooks"):
        for name in ("pre-commit", "post-commit", "post-checkout"):
            (folder / name).symlink_to(trap)
    (workdir.path / "a.py").write_text("a = 2\n", encoding="utf-8")
    for command in (["status"], ["commit", "-qam", "mine"], ["checkout", "-q", "-b", "other"]):
        run(*command, cwd=workdir.path, GIT_CONFIG_GLOBAL=str(tmp_path / "global"))
    assert not (tmp_path / "sprung").exists()


def applied(workdir: Workdir, patch: str, repository: tuple[Path, str], tmp_path: Path) -> Path:
    """A fresh copy with the patch applied, as the grader makes it."""
    fresh = prepare_workdir(repository[0], workdir.base_commit, tmp_path / "fresh").path
    subprocess.run(["git", "apply", "--binary", "-"], cwd=fresh, input=patch.encode("utf-8"), check=True)
    return fresh


def test_patch_of_an_untouched_copy_is_empty(workdir: Workdir) -> None:
    assert workdir.patch() == ""


def test_patch_holds_every_kind_of_change(workdir: Workdir, repository: tuple[Path, str], tmp_path: Path) -> None:
    path = workdir.path
    (path / "a.py").write_text("a = 2", encoding="utf-8")  # no newline at the end
    (path / "b.py").unlink()
    (path / "new folder").mkdir()
    contents = {
        "new folder/ü.py": "ü = '\\u2028'\n".encode(),
        "crlf.txt": b"one\r\ntwo\r\n",
        "latin.txt": b"caf\xe9\n",
        "binary.bin": bytes(range(256)),
        "empty.txt": b"",
    }
    for name, content in contents.items():
        (path / name).write_bytes(content)
    script = path / "run.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    (path / "link").symlink_to("a.py")
    patch = workdir.patch()
    assert patch.endswith("\n")
    patch.encode("utf-8")
    fresh = applied(workdir, patch, repository, tmp_path)
    assert (fresh / "a.py").read_bytes() == b"a = 2"
    assert not (fresh / "b.py").exists()
    assert {name: (fresh / name).read_bytes() for name in contents} == contents
    assert os.access(fresh / "run.sh", os.X_OK)
    assert (fresh / "link").is_symlink()
    assert workdir.patch() == patch


def test_patch_is_against_the_base_whatever_the_agent_commits(workdir: Workdir) -> None:
    path = workdir.path
    (path / "a.py").write_text("a = 2\n", encoding="utf-8")
    expected = workdir.patch()
    run("commit", "-qam", "mine", cwd=path)
    run("checkout", "-q", "-b", "other", cwd=path)
    run("rm", "-q", "--cached", "b.py", cwd=path)
    assert workdir.patch() == expected
    subprocess.run(["rm", "-rf", str(path / ".git")], check=True)
    assert workdir.patch() == expected


def test_ignored_files_stay_out(workdir: Workdir) -> None:
    (workdir.path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (workdir.path / "x.log").write_text("noise\n", encoding="utf-8")
    assert "x.log" not in workdir.patch()


def test_patch_runs_nothing_that_a_hostile_repository_asks_for(workdir: Workdir, tmp_path: Path) -> None:
    path = workdir.path
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n", encoding="utf-8")
    trap.chmod(0o755)
    for name, value in {
        "core.fsmonitor": str(trap),
        "core.hooksPath": str(tmp_path),
        "diff.external": str(trap),
        "diff.evil.textconv": str(trap),
        "diff.evil.command": str(trap),
        "filter.evil.clean": str(trap),
        "filter.evil.process": str(trap),
        "core.pager": str(trap),
        "core.worktree": "/",
        "diff.noprefix": "true",
        "color.ui": "always",
    }.items():
        run("config", name, value, cwd=path)
    for name in ("post-index-change", "pre-commit"):
        (path / ".git" / "hooks").mkdir(exist_ok=True)
        (path / ".git" / "hooks" / name).symlink_to(trap)
    (path / ".gitattributes").write_text("* diff=evil filter=evil text eol=crlf\n", encoding="utf-8")
    (path / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil\n", encoding="utf-8")
    (path / "a.py").write_text("a = 2\n", encoding="utf-8")
    patch = workdir.patch()
    assert "+a = 2\n" in patch
    assert "--- a/a.py\n" in patch
    assert "b.py" not in patch
    assert not (tmp_path / "sprung").exists()


def test_a_repository_inside_the_copy_does_not_hide_changes_of_tracked_files(workdir: Workdir) -> None:
    path = workdir.path
    (path / "vendored").mkdir()
    (path / "vendored" / "x.py").write_text("x = 1\n", encoding="utf-8")
    run("init", "-q", cwd=path / "vendored")
    (path / "a.py").write_text("a = 2\n", encoding="utf-8")
    patch = workdir.patch()
    assert "+a = 2\n" in patch
    assert "vendored" not in patch


@pytest.mark.parametrize(
    "instead", ["ln -s host {0}", "mkdir {0}; cp host/secret {0}", "ln -s / {0}", "echo x > {0}", "mkfifo {0}", "true"]
)
def test_no_patch_is_taken_from_what_an_agent_put_in_the_place_of_its_copy(workdir: Workdir, tmp_path: Path, instead: str) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "secret").write_text("HOST-SECRET\n", encoding="utf-8")
    subprocess.run(["bash", "-c", f"mv {workdir.path} {tmp_path}/aside; cd {tmp_path}; {instead.format(workdir.path)}"], check=True)
    with pytest.raises(PatchRefused) as refused:
        workdir.patch()
    assert refused.value.status == "WorkdirReplaced" and not isinstance(refused.value, InfraError)


AGENTS_DOING = {
    "a fifo for a tracked file": "rm a.py; mkfifo a.py",
    "fifos and a socket beside it": "mkfifo x y; mkdir d; mkfifo d/z; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'",
    "a fifo for the list of ignored files": "mkfifo .gitignore .gitattributes",
    "nothing readable": "mkdir d; echo 1 > d/f; chmod 000 a.py d/f d .git",
    "no git folder": "rm -rf .git",
    "a git folder that lies": "rm -rf .git; echo 'gitdir: /nowhere' > .git",
    "a damaged index": "echo rubbish > .git/index; : > .git/index.lock; mkdir .git/HEAD.lock",
    "a damaged configuration": "echo '[[' > .git/config; echo '[[' > .gitmodules",
    "names that git refuses": "mkdir .GIT; echo x > .GIT/config; echo x > git~1",
    "folders without end": "for i in $(seq 300); do mkdir -p dddddddddddddddd; cd dddddddddddddddd || break; done; echo x > f",
    "a folder for a file and a file for a folder": "rm a.py b.py; mkdir a.py; echo x > a.py/x; ln -s b.py b.py",
    "links into nowhere and into a ring": "ln -s loop loop; ln -s /nowhere n; ln -s / root",
    "nothing at all": "find . -mindepth 1 -delete",
}


@pytest.mark.parametrize("command", AGENTS_DOING.values(), ids=AGENTS_DOING.keys())
def test_no_doing_of_an_agent_makes_its_patch_a_failure_of_the_machine(workdir: Workdir, command: str) -> None:
    (workdir.path / "edited.py").write_text("edited = 1\n", encoding="utf-8")
    subprocess.run(["bash", "-c", command], cwd=workdir.path, stderr=subprocess.DEVNULL, check=False)
    try:
        patch = workdir.patch()
    except PatchRefused as error:
        assert error.status == "PatchUnreadable" and not isinstance(error, InfraError)
    else:
        assert "+edited = 1\n" in patch or command.startswith("find")
    assert remove_tree(workdir.path)


def test_a_special_file_in_a_tracked_files_place_is_its_deletion_and_the_rest_of_the_patch_stays(workdir: Workdir) -> None:
    (workdir.path / "a.py").unlink()
    os.mkfifo(workdir.path / "a.py")
    os.mkfifo(workdir.path / "new")
    (workdir.path / "b.py").write_text("b = 2\n", encoding="utf-8")
    patch = workdir.patch()
    assert "deleted file" in patch and "+b = 2\n" in patch and "new" not in patch.replace("new file", "")


def test_a_patch_has_a_largest_number_of_new_files_and_a_largest_size(workdir: Workdir) -> None:
    many = workdir.path / "many"
    many.mkdir()
    for number in range(MOST_NEW_FILES):
        (many / str(number)).touch()
    assert workdir.patch().count("new file mode") == MOST_NEW_FILES
    cases = {"one more file": many / "more", "a large new file": workdir.path / "large", "a tracked file that grew": workdir.path / "a.py"}
    for name, path in cases.items():
        before = path.read_bytes() if path.exists() else None
        if path.parent != many:
            (many / "0").unlink(missing_ok=True)
        with path.open("wb") as file:
            file.truncate(0 if path.parent == many else MOST_BYTES + 1)  # sparse
        with pytest.raises(PatchRefused, match="at most") as refused:
            workdir.patch()
        assert refused.value.status == "PatchTooLarge", name
        path.unlink() if before is None else path.write_bytes(before)
    (workdir.path / ".gitignore").write_text("large\nmany\n", encoding="utf-8")
    with (workdir.path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert "large" in workdir.patch() and workdir.patch().count("new file mode") == 1
