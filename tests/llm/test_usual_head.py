"""The glance at a response's head: what it takes, the parser takes too, and reads the same."""

from __future__ import annotations

from httptools import HttpResponseParser
from hypothesis import example, given
from hypothesis import strategies as st

from spectator.llm.usual_head import length_of_body

LINES = st.sampled_from([
    b"Content-Length: 5", b"content-length: 05", b"Content-Length: 0", b"Content-Length: +5",
    b"Content-Length: 5, 5", b"Content-Length:5", b"Content-Length: 5 ",
    b"Transfer-Encoding: chunked", b"Connection: close",
    b"Connection: keep-alive", b"Content-Encoding: gzip", b"Retry-After: 1", b"X-RateLimit-Limit-Tokens: 9",
    b"Server: a: b", b"Date: Mon, 23 Nov 2026 08:00:00 GMT", b"Content-Type: application/json", b"Trailer: X",
    b"Upgrade: h2c", b" folded", b"no colon", b"Bad\x00: x", b"Bad: \x80", b"Empty: ",
])  # fmt: skip
FIRST = st.sampled_from([
    b"HTTP/1.1 200 OK", b"HTTP/1.1 200 ", b"HTTP/1.1 200", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 None",
    b"HTTP/1.1 2000 OK", b"HTTP/1.1 429 Busy", b"ICY 200 OK",
])  # fmt: skip


class Told:
    """What a parser tells of a response."""

    def __init__(self) -> None:
        self.headers: set[bytes] = set()
        self.body = b""
        self.parser = HttpResponseParser(self)
        self.whole = self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.add(name.lower())

    def on_body(self, piece: bytes) -> None:
        self.body += piece

    def on_message_complete(self) -> None:
        self.whole, self.keeps = True, self.parser.should_keep_alive()


@given(FIRST, st.lists(LINES, max_size=5))
@example(b"HTTP/1.1 200 OK", [b"Content-Type: application/json", b"Content-Length: 5"])
def test_what_is_taken_at_a_glance_the_parser_reads_alike(first: bytes, lines: list[bytes]) -> None:
    head = b"\r\n".join([first, *lines])
    length = length_of_body(head)
    if length < 0:
        return
    told = Told()
    parser = told.parser
    parser.feed_data(head + b"\r\n\r\n" + b"x" * length)
    assert (parser.get_status_code(), told.whole, told.body) == (200, True, b"x" * length)
    assert told.keeps and parser.get_http_version() == "1.1"
    assert not told.headers & {b"retry-after", b"content-encoding", b"x-ratelimit-limit-tokens"}


def test_usual_heads_are_taken_and_others_left_to_the_parser() -> None:
    usual = b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 812\r\nContent-Type: application/json"
    assert length_of_body(usual) == 812
    for more in (
        b"Content-Length: 812",
        b"Retry-After: 1",
        b"Connection: close",
        b"X-RateLimit-Limit-Tokens: 1",
    ):
        assert length_of_body(usual + b"\r\n" + more) == -1, more
    assert length_of_body(usual.replace(b"200", b"429")) == length_of_body(b"HTTP/1.1 200 OK") == -1
