"""A registry with one image, for pulling without a network: ``python tests/registry.py IMAGE.tar NAME`` prints its port and serves until its input ends.

IMAGE.tar is what ``docker save`` writes. Layers are sent as they are (uncompressed). Anything else that is asked for is answered as a registry does that
does not know it; the name ``limited`` is answered as one that has had enough of anonymous pulls.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPE = "application/vnd.docker.distribution.manifest.v2+json"


class Registry(ThreadingHTTPServer):
    """Answers what an engine asks for while it pulls ``name``."""

    def __init__(self, archive: str, name: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.name = name
        self.blobs: dict[str, bytes] = {}
        with tarfile.open(archive) as tar:

            def read(member: str) -> bytes:
                file = tar.extractfile(member)
                assert file is not None
                return file.read()

            about = json.loads(read("manifest.json"))[0]
            config = self._describe(read(about["Config"]), "application/vnd.docker.container.image.v1+json")
            layers = [self._describe(read(layer), "application/vnd.docker.image.rootfs.diff.tar") for layer in about["Layers"]]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": TYPE, "config": config, "layers": layers}).encode()

    def _describe(self, content: bytes, kind: str) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return {"mediaType": kind, "size": len(content), "digest": digest}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Registry)
        digest = f"sha256:{hashlib.sha256(server.manifest).hexdigest()}"
        what = self.path.rsplit("/", 1)[-1]
        if self.path == "/v2/":
            self._answer(200, b"{}")
        elif self.path.startswith("/v2/limited/"):
            self._answer(429, json.dumps({"errors": [{"code": "TOOMANYREQUESTS", "message": "too many anonymous pulls"}]}).encode())
        elif self.path.startswith(f"/v2/{server.name}/manifests/") and what in ("latest", digest):
            self._answer(200, server.manifest, {"Content-Type": TYPE, "Docker-Content-Digest": digest})
        elif self.path.startswith(f"/v2/{server.name}/blobs/") and what in server.blobs:
            self._answer(200, server.blobs[what])
        else:
            self._answer(404, json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode())

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


if __name__ == "__main__":
    registry = Registry(*sys.argv[1:3])
    sys.stdout.write(f"{registry.server_address[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    sys.stdin.read()
