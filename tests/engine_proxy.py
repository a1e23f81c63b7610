"""A way to an engine that fails on demand: a socket that passes bytes on, until it is told to hang or to break off."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from pathlib import Path


class EngineProxy:
    """Listens at ``path`` and passes each connection on to the engine at ``target`` (the path of its socket).

    ``mode``: "pass"; "hang" takes connections and bytes and answers nothing any more; "refuse" ends all connections and takes no new one.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.host = f"unix://{path}"
        self.mode = "pass"
        self._target = target
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._wake, self._woken = socket.socketpair()
        for waiting in (self._listener, self._woken):
            self._selector.register(waiting, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def set(self, mode: str) -> None:
        """Change the mode, from now on and for the connections that there are."""
        self.mode = mode
        self._wake.send(b"x")

    def close(self) -> None:
        self.set("closed")
        self._thread.join(timeout=10)

    def _serve(self) -> None:
        while self.mode != "closed":
            for key, _ in self._selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is self._woken:
                    ready.recv(100)
                    if self.mode in ("refuse", "closed"):
                        self._drop(*self._peers)
                elif ready is self._listener:
                    self._accept()
                elif ready in self._peers and self.mode == "pass":
                    self._pass(ready)
                elif ready in self._peers:
                    self._selector.unregister(ready)
        self._listener.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        if self.mode == "refuse":
            near.close()
            return
        far = socket.socket(socket.AF_UNIX)
        far.connect(self._target)
        for one, other in ((near, far), (far, near)):
            self._peers[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _pass(self, ready: socket.socket) -> None:
        try:
            block = ready.recv(65536)
            if block:
                self._peers[ready].sendall(block)
                return
        except OSError:
            pass
        self._drop(ready, self._peers[ready])

    def _drop(self, *sockets: socket.socket) -> None:
        for one in list(sockets):
            self._peers.pop(one, None)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(one)
            one.close()
