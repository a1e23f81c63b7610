"""Output that may be endless, kept in bounded memory."""

from __future__ import annotations

from collections import deque


class BoundedOutput:
    """Keeps the first and the last ``limit // 2`` bytes of a stream and counts what it dropped in between."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, block: bytes) -> None:
        """Take the next bytes of the stream."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += block[:room]
            block = block[room:]
        if not block:
            return
        self._tail.append(block)
        self._tail_size += len(block)
        while self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._dropped += gone

    def text(self) -> str:
        """What was kept, decoded as UTF-8 (bytes that are not become U+FFFD), with a line in the middle that says how much is missing."""
        tail = b"".join(self._tail)
        cut = max(0, len(tail) - self._half)
        dropped = self._dropped + cut
        if not dropped:
            return (bytes(self._head) + tail).decode("utf-8", errors="replace")
        first = self._head.decode("utf-8", errors="replace")
        last = tail[cut:].decode("utf-8", errors="replace")
        return f"{first}\n[... {dropped} bytes of output left out ...]\n{last}"
