"""Clips of moments: drawn from the record, the same whenever they are drawn, and refused in a sentence."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageSequence

from server.http import previews
from server.http.clip_drawing import takes_of
from server.lru_cache import LruCache
from spectator.environments.cricket import WORLD as CRICKET
from spectator.events import decode
from tests.serving import Serving, serve, test_settings


@pytest.fixture(scope="module")
def cricket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of cricket."""
    settings = test_settings(tmp_path_factory.mktemp("data"), environment="cricket")
    with serve(settings) as serving:
        yield serving


@pytest.fixture(scope="module")
def ended(cricket: Serving) -> str:
    """A short match that is over, with simulated chances."""
    episode_id = cricket.start(seed=9, options={"max_overs": 1, "forecast_futures": 32})
    cricket.finish(episode_id)
    return episode_id


@pytest.fixture(scope="module")
def balls(cricket: Serving, ended: str) -> list[dict[str, Any]]:
    return [one for one in cricket.events(ended) if one["type"] == "cricket.ball_bowled"]


def shown(picture: bytes) -> tuple[int, int]:
    """Pictures and milliseconds of an animation."""
    film = Image.open(io.BytesIO(picture))
    assert film.format == "WEBP"
    assert film.size == (640, 360)
    stands = []
    for frame in ImageSequence.Iterator(film):
        frame.load()
        stands.append(frame.info["duration"])
    return len(stands), sum(stands)


def test_a_moment_is_a_film_of_at_most_the_seconds_asked_for(
    cricket: Serving, ended: str, balls: list[dict[str, Any]]
) -> None:
    answer = cricket.client.get(f"/clip/{ended}.webp?from={balls[2]['seq']}&seconds=10")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["cache-control"] == "public, max-age=86400"
    assert len(answer.content) < 300_000
    frames, milliseconds = shown(answer.content)
    assert frames > 20, "the balls after it, too"
    assert 6_800 <= milliseconds <= 10_000
    video = cricket.client.get(f"/clip/{ended}.webm?from={balls[2]['seq']}&seconds=10")
    assert video.headers["content-type"] == "video/webm"
    assert video.content.count(b"\x9d\x01\x2a\x80\x02\x68\x01") == frames, "VP8 key frames of 640 by 360"
    assert len(video.content) < 1_000_000
    still = cricket.client.get(f"/clip/{ended}.png?from={balls[2]['seq']}").content
    assert struct.unpack(">II", still[16:24]) == (640, 360)


def test_it_is_the_moment_where_the_viewer_stands(
    cricket: Serving, ended: str, balls: list[dict[str, Any]]
) -> None:
    """Until the next ball it is the last one; before the first ball, that; at the end, the last."""
    events = [decode(json.dumps(one)).event for one in cricket.events(ended)]
    seqs = [ball["seq"] for ball in balls]
    for place, ball in (
        (0, 0), (1, 0), (seqs[0], 0), (seqs[2], 2), (seqs[3] - 1, 2), (seqs[3], 3), (10**9, len(seqs) - 1)
    ):  # fmt: skip
        seats, takes = takes_of(CRICKET, events, place)
        assert takes[0].seq == seqs[ball]
        assert len(seats) == 2
    told = next(one.data["home"] for one in events if one.type == "cricket.forecast" and one.seq > seqs[2])
    _, takes = takes_of(CRICKET, events, seqs[2])
    assert takes[0].after == told
    assert takes[1].before == told


def test_what_cannot_be_drawn_is_said_in_a_sentence(serving: Serving, cricket: Serving, ended: str) -> None:
    counting = serving.start()
    serving.finish(counting)
    refused = serving.client.get(f"/clip/{counting}.webp?from=3")
    assert refused.status_code == 404
    assert "draws no clips" in refused.text
    assert "clip" not in serving.client.get(f"/watch/{counting}?seq=3").text
    for path, status in (
        (f"/clip/{ended}.webp?seconds=11", 422),
        (f"/clip/{ended}.webp?from=-1", 422),
        (f"/clip/{ended}.mp4", 422),
        ("/clip/ep-nobody.webp", 404),
        ("/clip/..%2F.webp", 404),
    ):
        assert cricket.client.get(path).status_code == status, path


def test_before_the_first_ball_there_is_nothing_to_see(cricket: Serving) -> None:
    episode_id = cricket.start(seed=3, captain_preset="human", pace="broadcast", options={"max_overs": 1})
    answer = cricket.client.get(f"/clip/{episode_id}.webp")
    assert answer.status_code == 404
    assert "no scene has happened" in answer.text
    cricket.client.post(f"/api/episodes/{episode_id}/stop")


def test_a_link_with_a_moment_shows_it(cricket: Serving, ended: str, balls: list[dict[str, Any]]) -> None:
    seq = balls[2]["seq"]
    page = cricket.client.get(f"/watch/{ended}?seq={seq}").text
    first, *others = (part.partition('"')[0] for part in page.split('property="og:image" content="')[1:])
    assert first.endswith(f"/clip/{ended}.png?from={seq}")
    assert [other.rpartition("/")[2] for other in others] == [f"{ended}.webp?from={seq}", f"{ended}.png"]
    assert "/clip/" not in cricket.client.get(f'/watch/{ended}?seq="><b>').text


def test_it_is_drawn_once_and_comes_out_alike(
    cricket: Serving, ended: str, balls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    draw = previews.output_of

    async def counted(program: Path, given: bytes, longest_s: float) -> bytes:
        drawn.append(program.name)
        return await draw(program, given, longest_s)

    monkeypatch.setattr(previews, "output_of", counted)
    path = f"/clip/{ended}.webp?from={balls[1]['seq']}"
    first = cricket.client.get(path).content
    assert cricket.client.get(path).content == first
    assert drawn == ["clip_drawing.py"]
    monkeypatch.setattr(LruCache, "get", lambda kept, key: None)
    assert cricket.client.get(path).content == first
    assert len(drawn) == 2
