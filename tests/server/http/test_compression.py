"""Answers are compressed for whoever takes that, and are the same to the byte."""

from __future__ import annotations

import gzip
import re
import zlib

import brotli
import pytest

from tests.serving import Serving

PLAIN = {"Accept-Encoding": "identity"}
PACKED = {"Accept-Encoding": "gzip"}
SMALLEST = {"Accept-Encoding": "gzip, deflate, br, zstd"}


@pytest.fixture(scope="module")
def episode_id(shared_server: Serving) -> str:
    """A recorded episode of some length."""
    found = shared_server.start(options={"turns": 200})
    shared_server.finish(found)
    return found


@pytest.mark.parametrize("kind", ["events", "export"])
def test_a_record_is_sent_in_a_fifth_of_its_size(serving: Serving, episode_id: str, kind: str) -> None:
    path = f"/api/episodes/{episode_id}/{kind}"
    plain = serving.client.get(path, headers=PLAIN)
    assert "content-encoding" not in plain.headers
    with serving.client.stream("GET", path, headers=PACKED) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in answer.headers["vary"]
    assert gzip.decompress(raw) == plain.content
    assert len(raw) * 5 < len(plain.content)
    for header in ("content-type", "spectator-digest", "content-disposition"):
        assert answer.headers.get(header) == plain.headers.get(header)


def test_a_record_is_smaller_still_for_whoever_takes_brotli(serving: Serving, episode_id: str) -> None:
    path = f"/api/episodes/{episode_id}/events"
    plain = serving.client.get(path, headers=PLAIN)
    sizes = {}
    for encodings in (PACKED, SMALLEST):
        with serving.client.stream("GET", path, headers=encodings) as answer:
            raw = b"".join(answer.iter_raw())
        sizes[answer.headers["content-encoding"]] = len(raw)
    assert brotli.decompress(raw) == plain.content
    assert "Accept-Encoding" in answer.headers["vary"]
    assert sizes["br"] < sizes["gzip"]


def test_the_first_lines_of_a_record_can_be_read_before_the_last_come(
    serving: Serving, episode_id: str
) -> None:
    """Each piece is flushed, so that a client that reads line by line does not wait for the end."""
    reader = zlib.decompressobj(31)
    with serving.client.stream("GET", f"/api/episodes/{episode_id}/events", headers=PACKED) as answer:
        first = reader.decompress(next(answer.iter_raw(100)))
    assert first.startswith(b'{"')
    with serving.client.stream("GET", f"/api/episodes/{episode_id}/events", headers=SMALLEST) as answer:
        assert brotli.Decompressor().process(next(answer.iter_raw(100))).startswith(b'{"')


def test_every_static_file_is_the_same_compressed(serving: Serving) -> None:
    page = serving.client.get("/").text
    paths = set(re.findall(r'(?:href|src)="./static/([^"]+)', page))
    assert len(paths) == 5, paths
    for path in paths:
        plain = serving.client.get(f"/static/{path}", headers=PLAIN)
        packed = serving.client.get(f"/static/{path}", headers=PACKED)
        assert packed.headers["content-encoding"] == "gzip" and packed.content == plain.content
        assert packed.headers["content-type"] == plain.headers["content-type"]
        with serving.client.stream("GET", f"/static/{path}", headers=SMALLEST) as answer:
            assert brotli.decompress(b"".join(answer.iter_raw())) == plain.content
        assert answer.headers["content-encoding"] == "br"
        sizes = [int(one.headers["content-length"]) for one in (answer, packed, plain)]
        assert sizes == sorted(set(sizes))
        assert "immutable" in packed.headers["cache-control"]
        assert "Accept-Encoding" in packed.headers["vary"] and "Accept-Encoding" in plain.headers["vary"]


def test_what_is_small_and_what_streams_live_is_sent_as_it_is(serving: Serving, episode_id: str) -> None:
    assert "content-encoding" not in serving.client.get("/health", headers=PACKED).headers
    with serving.client.stream("GET", f"/live/{episode_id}/events", headers=PACKED) as live:
        assert live.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in live.headers


def test_a_page_and_the_catalogue_are_compressed(serving: Serving) -> None:
    for path in ("/", "/custom/catalog", "/openapi.json", "/docs"):
        packed, plain = (serving.client.get(path, headers=headers) for headers in (PACKED, PLAIN))
        assert packed.headers["content-encoding"] == "gzip", path
        assert packed.content == plain.content
