"""A server that speaks so much of an engine's API that it can be asked which images and containers there are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote


@contextmanager
def engine_with(images: Sequence[str]) -> Iterator[str]:
    """The address, for DOCKER_HOST, of an engine that has these images and no container."""
    known = {name: {"Id": f"sha256:{number:064}", "RepoTags": [name], "Size": 1 << 20} for number, name in enumerate(images)}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(200, None)

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0]).removeprefix("/v1.44")
            if path.startswith("/images/") and path.endswith("/json"):
                name = path.removeprefix("/images/").removesuffix("/json")
                self._answer(*((200, known[name]) if name in known else (404, {"message": f"No such image: {name}"})))
            else:
                self._answer(200, _FIXED.get(path, [] if path == "/containers/json" else {"Images": list(known.values()), "LayersSize": 1}))

        def _answer(self, code: int, content: Any) -> None:
            body = b"" if content is None else content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"tcp://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_FIXED: dict[str, Any] = {
    "/_ping": "OK",
    "/version": {"ApiVersion": "1.44", "Version": "25.0"},
    "/info": {"ID": "one", "DockerRootDir": "/nowhere"},
}
