"""What the container tests share: an engine to run on, and images made of this machine's own files, since tests have no network.

The engine is the one that DOCKER_HOST names (``.ci/engine start FOLDER`` starts a private one and prints what to set). Without it these tests are skipped, so
that they never work on an engine that a person uses for something else.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from docker import DockerClient

BASE = "swe-memory-test/base"
_ENVIRONMENT = "opt/miniconda3/envs/testbed"  # where the official evaluation scripts look for Python
_PROGRAMS = """
awk basename bash cat chgrp chmod chown cksum comm cp cut date dd df diff dirname du echo env expr false find getconf git grep gzip head hostname id
join kill ln ls md5sum mkdir mkfifo mknod mktemp mv nl nohup nproc od paste patch printf ps pwd readlink realpath rm rmdir sed seq setsid sh sha1sum
sha256sum sleep sort split stat sync tac tail tar tee test timeout touch tr true truncate tty uname uniq wc which whoami xargs yes
"""
_FOLDERS = ("dev", "etc", "home/agent", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var/tmp")
_LEFT_OUT = {"__pycache__", "ensurepip", "idlelib", "lib2to3", "site-packages", "dist-packages", "test", "tests", "tkinter", "turtledemo"}
_CONDA = f"""\
conda() {{
    if [ "${{1:-}}" = activate ]; then
        export CONDA_DEFAULT_ENV=testbed
        case ":$PATH:" in *":/{_ENVIRONMENT}/bin:"*) ;; *) export PATH="/{_ENVIRONMENT}/bin:$PATH" ;; esac
    fi
}}
"""
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n",
    "etc/group": "root:x:0:\nagent:x:1000:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "opt/miniconda3/bin/activate": _CONDA,
    "opt/miniconda3/etc/profile.d/conda.sh": _CONDA,
    "root/.bashrc": "source /opt/miniconda3/bin/activate\nconda activate testbed\n",
}


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """A client of the engine that DOCKER_HOST names. Skips, with the reason, where there is none."""
    host = os.environ.get("DOCKER_HOST")
    if not host:
        pytest.skip("needs a container engine: DOCKER_HOST is not set (.ci/engine start FOLDER prints one)")
    import docker

    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except docker.errors.DockerException as error:
        pytest.skip(f"needs a container engine, and none answers at {host}: {str(error)[:200]}")
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_image(engine: DockerClient) -> str:
    """The name of an image with bash, coreutils, git and Python; made once for an engine, whatever number of test processes ask."""
    return make_base_image(engine)


def make_base_image(client: DockerClient) -> str:
    """See :func:`base_image`. A second call costs one look at the engine."""
    key = hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()[:12]
    name = f"{BASE}:{key}"

    def build() -> None:
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            _write_root(Path(file.name))
            client.api.import_image_from_file(file.name, repository=BASE, tag=f"{key}-plain")
        build_image(client, name, f"FROM {BASE}:{key}-plain\nENV PATH=/usr/bin:/bin\nWORKDIR /\nSTOPSIGNAL SIGKILL\n")

    return once(client, name, build)


def once(client: DockerClient, name: str, build: Any) -> str:
    """``name``, after ``build()`` has made that image; one process at a time, and only where the engine has none of that name."""
    import docker

    place = hashlib.sha256((client.api.base_url + os.environ.get("DOCKER_HOST", "")).encode()).hexdigest()[:12]
    with FileLock(Path(tempfile.gettempdir()) / f"swe-memory-tests-{place}.lock", timeout=240):
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            build()
    return name


def build_image(client: DockerClient, name: str, dockerfile: str, folders: dict[str, Path] | None = None) -> str:
    """Build ``name`` from a Dockerfile whose context holds ``folders`` (name in the context -> folder on this machine)."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        _text(archive, "Dockerfile", dockerfile)
        for inside, folder in (folders or {}).items():
            archive.add(folder, inside, filter=_as_root)
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True, network_mode="none")
    return name


def repository_image(client: DockerClient, base: str, name: str, repository: Path) -> str:
    """An image with ``repository`` (a folder with its .git) at /testbed, as the official images have it."""
    return build_image(client, name, f"FROM {base}\nCOPY testbed /testbed\nWORKDIR /testbed\n", {"testbed": repository})


def _write_root(target: Path) -> None:
    """A root file system in which bash, git and the running Python work, as a tar file."""
    files: dict[str, Path] = {}  # path in the image -> file here
    for program in _PROGRAMS.split():
        if found := shutil.which(program, path="/usr/bin:/bin:/usr/local/bin"):
            files[f"usr/bin/{program}"] = Path(found).resolve()
    helpers = Path(subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip())
    files |= {_inside(path): path for path in helpers.glob("git-s*") if path.name.startswith(("git-sh-", "git-submodule"))}
    files |= {_inside(path): path for path in Path("/usr/share/git-core").rglob("*") if path.is_file()}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    prefix = Path(sys.base_prefix)
    files[f"{_ENVIRONMENT}/bin/{version}"] = (prefix / "bin" / version).resolve()
    for folder, inner, names in os.walk(prefix / "lib" / version):
        inner[:] = [name for name in inner if name not in _LEFT_OUT and not name.startswith("config-")]
        for name in names:
            path = Path(folder, name)
            files[f"{_ENVIRONMENT}/{path.relative_to(prefix)}"] = path
    programs = [path for inside, path in files.items() if "/bin/" in inside or path.suffix == ".so"]
    files |= {_inside(path): path.resolve() for path in _libraries(programs)}
    with tarfile.open(target, "w") as archive:
        # Folders that are not in the archive would get whatever permissions the engine's umask leaves.
        folders = {*_FOLDERS, f"{_ENVIRONMENT}/lib/{version}/site-packages"}
        folders |= {str(parent) for name in [*folders, *files, *_TEXTS] for parent in Path(name).parents if parent != Path()}
        for name in sorted(folders):
            _entry(archive, name, tarfile.DIRTYPE, 0o1777 if name in ("tmp", "var/tmp", "home/agent") else 0o755)
        for name in ("bin", "sbin", "lib", "lib64"):
            _entry(archive, name, tarfile.SYMTYPE, 0o777, f"usr/{name}")
        for name in ("python", "python3"):
            _entry(archive, f"{_ENVIRONMENT}/bin/{name}", tarfile.SYMTYPE, 0o777, version)
        for inside, path in sorted(files.items()):
            archive.add(path, inside, recursive=False, filter=_as_root)
        for inside, text in _TEXTS.items():
            _text(archive, inside, text)


def _inside(path: Path) -> str:
    """Where a file of this machine lies in the image: /lib and /lib64 are links there."""
    inside = str(path).lstrip("/")
    return f"usr/{inside}" if inside.startswith(("lib/", "lib64/")) else inside


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that ``programs`` load, and the loader. Scripts have none."""
    listed = subprocess.run(["ldd", *sorted(map(str, programs))], capture_output=True, text=True, check=False).stdout
    words = (word for line in listed.splitlines() if not line.endswith(":") for word in line.split())
    return {Path(word) for word in words if word.startswith("/") and Path(word).is_file()}


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _entry(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, target: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, target
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))
