"""A reader of server-sent events (WHATWG HTML, section 9.2): bytes in, the data of events out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class EventReader:
    """Reads a stream that arrives in pieces, cut anywhere, with any of the three line ends.

    Event names, ids and comments are passed over: chat completions only use ``data``.

    >>> reader = EventReader()
    >>> reader.feed(b'data: {"id": 1}\\n\\ndata: {"id"'), reader.feed(b': 2}\\n\\n')
    ([b'{"id": 1}'], [b'{"id": 2}'])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Sequence[bytes]:
        """The data of each event that ``piece`` completes, in order."""
        if piece.startswith(b"data: ") and piece.endswith(b"\n\n") and not self._rest and not self._data:
            whole = piece[6:-2].split(b"\n\ndata: ")
            if piece.count(b"\n") == 2 * len(whole) and b"\r" not in piece:
                return whole  # events of one line each, none of them cut, as endpoints send nearly all
        buffer = self._rest + piece
        if b"\r" in buffer:
            # A carriage return at the very end may be half of a line end: it waits for what follows.
            held = b"\r" if buffer.endswith(b"\r") else b""
            buffer = buffer[: len(buffer) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        *lines, self._rest = buffer.split(b"\n")
        return list(self._events(lines))

    def _events(self, lines: Sequence[bytes]) -> Iterator[bytes]:
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and self._data:
                yield self._complete()

    def end(self) -> Iterator[bytes]:
        """The data of an event whose closing blank line never came, once the stream is over."""
        yield from self.feed(b"\n\n")
        if self._data:
            yield self._complete()

    def _complete(self) -> bytes:
        data, self._data = self._data, []
        return data[0] if len(data) == 1 else b"\n".join(data)
