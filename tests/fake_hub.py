"""A local HTTP server that speaks as much of the Hugging Face hub's API as loading a dataset takes, and fails on demand.

    with FakeHub() as hub:
        commit = hub.push("acme/rows", {"data/test.parquet": data})
        subprocess.run(..., env={**os.environ, **hub.environment(cache)})

Served: a repository's info at a revision, its tree, the files of a revision (HEAD, GET, ranges), and the error codes of what is not there. Paths, headers and
error codes are those that huggingface_hub sends and reads (its ``hf_api.py``, ``file_download.py`` and ``utils/_http.py``). ``requests`` keeps what was asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

_API = re.compile(r"/api/datasets/(?P<repo>[^/]+/[^/]+?)(/(?P<what>revision|tree|paths-info)/(?P<revision>[^/]+)(/(?P<path>.*))?)?")
_FILE = re.compile(r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")


@dataclass
class Repository:
    """Commits, each a whole tree of files, and the names that point at them."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def resolve(self, revision: str) -> str | None:
        return self.names.get(revision) or (revision if revision in self.commits else None)


class FakeHub:
    """``gated`` repositories are refused to everybody. What ``failing`` (a regular expression) finds in "METHOD PATH" is answered 400:
    the libraries do not try that again, as they do 5xx for half a minute."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.gated: set[str] = set()
        self.failing = ""
        self.requests: list[str] = []
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def push(self, name: str, files: dict[str, bytes], *names: str) -> str:
        """A new commit on main (and on the other ``names``, as tags or branches); gives its id."""
        repository = self.repositories.setdefault(name, Repository())
        digest = hashlib.sha1(repr((name, sorted(files.items()), len(repository.commits))).encode())
        commit = digest.hexdigest()
        repository.commits[commit] = files
        repository.names |= dict.fromkeys(("main", *names), commit)
        return commit

    def environment(self, cache: Path) -> dict[str, str]:
        """What makes the real libraries ask this hub and keep what they get in ``cache``."""
        return {"HF_ENDPOINT": self.url, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.hub.failing and re.search(self.hub.failing, f"{self.command} {path}"):
            return self._answer(400, b"out of order")
        if not (asked := _API.fullmatch(path) or _FILE.fullmatch(path)):
            return self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})
        repository = self.hub.repositories.get(asked["repo"])
        if repository is None:
            return self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        if asked["repo"] in self.hub.gated:
            return self._answer(403, b"", {"X-Error-Code": "GatedRepo"})
        commit = repository.resolve(asked["revision"] or "main")
        if commit is None:
            return self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        files = repository.commits[commit]
        if asked.re is _FILE:
            return self._file(files.get(asked["path"]), commit)
        if asked["what"] == "tree":
            return self._json(_tree(files, asked["path"] or ""))
        if asked["what"] == "paths-info":
            wanted = json.loads(body)["paths"]
            return self._json([entry for path in wanted for entry in _tree(files, str(Path(path).parent)) if entry["path"] == path])
        siblings = [{"rfilename": name} for name in sorted(files)]
        return self._json(
            {"_id": "0", "id": asked["repo"], "sha": commit, "private": False, "siblings": siblings, "tags": [], "downloads": 0}
        )

    do_HEAD = do_POST = do_GET

    def _file(self, data: bytes | None, commit: str) -> None:
        headers = {"X-Repo-Commit": commit}
        if data is None:
            return self._answer(404, b"", {**headers, "X-Error-Code": "EntryNotFound"})
        headers |= {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "Accept-Ranges": "bytes"}
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
            return self._answer(206, data[first : last + 1], {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"})
        return self._answer(200, data, headers)

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _tree(files: dict[str, bytes], folder: str) -> list[dict[str, Any]]:
    """Everything below a folder, folders included."""
    start = f"{folder.strip('/')}/" if folder.strip("./") else ""
    found = [
        {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        for name, data in files.items()
        if name.startswith(start)
    ]
    folders = {str(parent) for name in files if name.startswith(start) for parent in Path(name).parents} - {".", start.rstrip("/")}
    return found + [{"type": "directory", "path": name, "size": 0, "oid": "0" * 40} for name in sorted(folders) if name.startswith(start)]
