"""What `swe-memory doctor` says of a container engine and of the key: what is there, what it cannot do, and what for it is needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from swe_memory.cli import cli

VERSION = {"Version": "99.1", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Components": [{"Name": "Engine"}]}
INFO = {"NCPU": 6, "MemTotal": 12 << 30, "DockerRootDir": "/nowhere", "MemoryLimit": True, "CpuCfsQuota": True, "PidsLimit": True}


class Told:
    """An engine that only says what it is."""

    def __init__(self) -> None:
        self.info: dict[str, Any] = {"Architecture": "x86_64", **INFO}
        self.host = ""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = told.info if self.path.endswith("/info") else VERSION if self.path.endswith("/version") else "OK"
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    yield told
    server.shutdown()
    server.server_close()
    thread.join()


def check(name: str) -> dict[str, str]:
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, str] = next(check for check in json.loads(result.stdout)["checks"] if check["name"] == name)
    return found


def test_an_engine_is_described(told: Told) -> None:
    found = check("docker")
    assert (found["state"], found["hint"]) == ("ok", "")
    assert "99.1" in found["detail"] and "6 processors, 12.0 GiB" in found["detail"] and "cannot" not in found["detail"]


def test_limits_that_an_engine_cannot_keep_are_named(told: Told) -> None:
    told.info |= {"MemoryLimit": False, "PidsLimit": False, "SecurityOptions": ["name=rootless"]}
    found = check("docker")
    assert "rootless" in found["detail"] and "cannot limit memory, pids" in found["detail"]
    assert "without these limits" in found["hint"]


def test_another_architecture_is_told_to_be_untried(told: Told) -> None:
    told.info["Architecture"] = "aarch64"
    assert "x86_64" in check("docker")["hint"]


def test_a_disk_with_little_room_is_told(told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told.info["DockerRootDir"] = str(tmp_path)
    assert "free" not in check("docker")["detail"], "another machine's disk is not this one's"
    monkeypatch.setattr("swe_memory.cli.doctor._is_here", lambda _: True)
    monkeypatch.setattr("swe_memory.cli.doctor._LITTLE_DISK", 1 << 80)
    found = check("docker")
    assert "free for images" in found["detail"] and "images list" in found["hint"]


def test_without_an_engine_it_says_where_it_looked_and_what_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    found = check("docker")
    assert found["state"] == "missing"
    assert f"{tmp_path}/nobody" in found["detail"] and "DOCKER_HOST" in found["hint"] and "come as images" in found["hint"]


def test_a_key_is_asked_for_by_those_who_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    found = check("anthropic key")
    assert found["state"] == "missing" and "--agent mini" in found["hint"] and "need none" in found["hint"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    found = check("anthropic key")
    assert found["state"] == "ok" and "sk-ant-secret" not in json.dumps(found)
