"""Episodes shown elsewhere: their cards, the strip for other pages, oEmbed."""

from __future__ import annotations

import asyncio
import re
import struct
from pathlib import Path
from typing import Any

import brotli
import pytest

from server.http import previews
from server.http.previews import KEPT, CannotDraw, Cards, EpisodePreview, NoFont
from tests.serving import Serving, serve, test_settings

SMALLEST = {"Accept-Encoding": "br"}


def glance(**changes: Any) -> EpisodePreview:
    usual: dict[str, Any] = {
        "episode_id": "ep-1",
        "title": "A game",
        "headline": "Reds won by 3",
        "seats": ("Red", "Blue"),
        "sides": (),
        "status": "ended",
        "at": "round 7",
        "progress": 1.0,
        "chances": (0.5, 0.7, 0.4, 1.0),
        "line": "It is over.",
        "head_seq": 9,
    }
    return EpisodePreview(**{**usual, **changes})


@pytest.fixture(scope="module")
def ended(shared_server: Serving) -> str:
    """An episode that is over."""
    episode_id = shared_server.start()
    shared_server.finish(episode_id)
    return episode_id


def test_a_card_is_a_picture_of_the_size_that_links_show(serving: Serving, ended: str) -> None:
    answer = serving.client.get(f"/card/{ended}.png")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["cache-control"] == "public, max-age=86400"
    assert answer.content.startswith(b"\x89PNG")
    assert struct.unpack(">II", answer.content[16:24]) == (1200, 630)
    assert 5_000 < len(answer.content) < 150_000


def test_a_card_holds_what_is_said_and_nothing_that_is_not_text() -> None:
    drawn = previews.card(glance(headline='<script>"&', seats=("<b>", "Blue"), status="live"))
    assert "&lt;script&gt;" in drawn and "<script" not in drawn and "<b>" not in drawn
    assert "LIVE" in drawn and "round 7" in drawn
    assert ">Reds, Red<" in previews.card(glance(sides=("Reds", "Blues"))), "who leads which side"
    assert "100 %" in drawn, "who leads, while it goes on"
    assert "100 %" not in previews.card(glance())
    assert "<polyline" in drawn and "<polyline" not in previews.card(glance(chances=()))


@pytest.mark.parametrize("headline", ["A", "word " * 30, "W" * 160, "日本 " * 40])
def test_any_headline_fits(headline: str) -> None:
    texts = re.findall(
        r'font-size="(\d+)" font-weight="700"[^>]*>([^<]+)<', previews.card(glance(headline=headline))
    )
    said = [(float(size), text) for size, text in texts if text not in ("RESULT", "Spectator")]
    assert 1 <= len(said) <= 3
    assert all(len(text) * size * 0.62 <= 1080 for size, text in said)


async def _cards_of(cards: Cards, glances: list[EpisodePreview]) -> list[bytes]:
    return [await cards.of(one) for one in glances]


def test_a_card_is_drawn_once_and_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    async def draw(svg: str) -> bytes:
        drawn.append(svg)
        return svg.encode()

    monkeypatch.setattr(previews, "draw", draw)
    wanted = [glance(head_seq=number) for number in [*range(KEPT + 1), KEPT, 0]]
    asyncio.run(_cards_of(Cards(), wanted))
    assert len(drawn) == 2 + KEPT + 1 + 1, "the look for a font, each once, and the one that was given up"


def test_where_there_is_no_font_there_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    async def draw(svg: str) -> bytes:
        return b"nothing"

    monkeypatch.setattr(previews, "draw", draw)
    with pytest.raises(NoFont, match="fonts-dejavu-core"):
        asyncio.run(Cards().of(glance()))


def test_what_cannot_be_drawn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotDraw, match="exited with 1"):
        asyncio.run(previews.draw("no picture"))
    monkeypatch.setattr(previews, "LONGEST_S", 0.0)
    with pytest.raises(CannotDraw, match="longer"):
        asyncio.run(previews.draw(previews.card(glance())))


def test_an_episode_in_a_few_words(serving: Serving, ended: str) -> None:
    answer = serving.client.get(f"/api/episodes/{ended}/glance")
    seen, entry = answer.json(), serving.client.get(f"/api/episodes/{ended}").json()
    assert (seen["headline"], seen["title"]) == (entry["result"], entry["title"])
    assert (seen["status"], seen["head_seq"]) == ("ended", entry["head_seq"])
    assert seen["line"].rstrip(".") != seen["headline"]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert len(answer.content) < 700


def test_what_is_over_has_the_tile_that_the_wall_showed(serving: Serving, ended: str) -> None:
    answer = serving.client.get(f"/api/episodes/{ended}/tile")
    tile, entry = answer.json(), serving.client.get(f"/api/episodes/{ended}").json()
    assert (tile["title"], tile["seed"]) == (entry["title"], entry["seed"])
    assert tile["headline"].endswith("right") and tile["glance"]["progress"] == 1
    assert (tile["status"], tile["reason"]) == ("ended", "finished")
    assert answer.headers["cache-control"] == "public, max-age=2"


def test_the_strip_is_small_and_any_page_may_frame_it(serving: Serving, ended: str) -> None:
    """Under 5 kB on the wire with its script and its style; the other pages keep their own policy."""
    answer = serving.client.get(f"/embed/{ended}", headers=SMALLEST)
    policy = answer.headers["content-security-policy"]
    usual = serving.client.get("/").headers["content-security-policy"]
    assert "frame-ancestors *;" in policy
    assert re.sub(r"frame-ancestors [^;]*", "", policy) == re.sub(r"frame-ancestors [^;]*", "", usual)
    assert "frame-ancestors 'self'" in usual
    assert f'href="../watch/{ended}"' in answer.text
    total = 0
    for path in [f"/embed/{ended}", *re.findall(r'(?:href|src)="\.\.(/static/[^"]+)"', answer.text)]:
        with serving.client.stream("GET", path, headers=SMALLEST) as part:
            raw = b"".join(part.iter_raw())
            total += len(raw) + sum(len(name) + len(value) + 4 for name, value in part.headers.raw)
        if part.headers.get("content-encoding") == "br":
            assert brotli.decompress(raw)
    assert 1_000 < total < 5_000, total


def test_oembed_says_how_another_page_shows_it(serving: Serving, ended: str) -> None:
    root = serving.base_url
    for page in ("watch", "replay", "embed"):
        answer = serving.client.get("/oembed", params={"url": f"{root}/{page}/{ended}?seq=3"})
        assert answer.status_code == 200
        said = answer.json()
        assert (said["version"], said["type"], said["provider_name"]) == ("1.0", "rich", "Spectator")
        assert f'src="{root}/embed/{ended}"' in said["html"]
        assert said["thumbnail_url"] == f"{root}/card/{ended}.png"
    small = serving.client.get(
        "/oembed", params={"url": f"{root}/watch/{ended}", "maxwidth": 300, "maxheight": 1}
    )
    assert (small.json()["width"], small.json()["height"]) == (300, 96)


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/watch/{episode}",
        "{root}/watch/ep-nowhere",
        "{root}/watch/..%2f..%2fetc",
        "{root}/",
        "ftp://{host}/watch/{episode}",
        "http://[",
        "javascript:alert(1)",
        "",
    ],
)
def test_oembed_knows_no_other_page(serving: Serving, ended: str, url: str) -> None:
    host = serving.base_url.partition("://")[2]
    asked = url.format(root=serving.base_url, host=host, episode=ended)
    answer = serving.client.get("/oembed", params={"url": asked})
    assert answer.status_code == 404, answer.text
    assert answer.json()["type"] == "/problems/episode-not-found"


@pytest.mark.parametrize(
    "parameters", [{}, {"url": "x" * 2001}, {"url": "x", "format": "xml"}, {"url": "x", "maxwidth": "0"}]
)
def test_oembed_names_what_is_wrong(serving: Serving, parameters: dict[str, str]) -> None:
    answer = serving.client.get("/oembed", params=parameters)
    assert answer.status_code == 422
    assert answer.json()["errors"]


@pytest.mark.parametrize("name", ["ep-nowhere", "x" * 300, "%2e%2e", "a b", "<b>"])
@pytest.mark.parametrize(
    "path", ["/card/{}.png", "/embed/{}", "/api/episodes/{}/glance", "/api/episodes/{}/tile"]
)
def test_what_is_not_there_cannot_be_shared(serving: Serving, path: str, name: str) -> None:
    assert serving.client.get(path.format(name)).status_code == 404


def test_a_host_that_is_known_is_shown_as_it_is_known_and_none_that_is_no_host(tmp_path: Path) -> None:
    """A proxy speaks to the server without encryption; the links of the page have it."""
    settings = test_settings(tmp_path, allowed_origins="https://show.example", trusted_hops=0)
    with serve(settings) as serving:
        episode_id = serving.start()
        serving.finish(episode_id)
        page = serving.client.get(f"/watch/{episode_id}", headers={"Host": "show.example"})
        assert f'content="https://show.example/card/{episode_id}.png"' in page.text
        bad = serving.client.get(f"/watch/{episode_id}", headers={"Host": 'a"><b>'})
        assert "<b>" not in bad.text


def test_what_is_live_is_shown_as_it_stands(serving: Serving) -> None:
    episode_id = serving.start(pace="broadcast")
    try:
        seen = serving.client.get(f"/api/episodes/{episode_id}/glance").json()
        assert seen["status"] == "live"
        assert serving.client.get(f"/card/{episode_id}.png").headers["cache-control"] == "public, max-age=30"
        assert 'data-status="live"' in serving.client.get(f"/embed/{episode_id}").text
    finally:
        serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})
