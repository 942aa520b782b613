"""The page of a moment: what a link to it shows, and the fork that changes the ending."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from httpx import Response

from spectator.environments.cricket.world import WORLD as CRICKET
from spectator.events import Event
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-of-the-operator"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def cricket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server of cricket, with an operator and one slot."""
    settings = test_settings(
        tmp_path_factory.mktemp("data"),
        environment="cricket",
        operator_token=TOKEN,
        max_episodes=1,
        allowed_origins=("https://show.test",),
    )
    with serve(settings) as serving:
        yield serving


@pytest.fixture(scope="module")
def ended(cricket: Serving) -> str:
    """A short match that is over, with simulated chances."""
    episode_id = cricket.start(seed=9, options={"max_overs": 2, "forecast_futures": 32})
    cricket.finish(episode_id)
    return episode_id


@pytest.fixture(scope="module")
def events(cricket: Serving, ended: str) -> list[dict[str, Any]]:
    return cricket.events(ended)


@pytest.fixture(scope="module")
def out(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The call of the wicket that changed most."""
    home = [(one["turn"], one["data"]["home"]) for one in events if one["type"] == "cricket.forecast"]
    change = {turn: abs(after - before) for (_, before), (turn, after) in pairwise(home)}
    return max(
        (one for one in events if one["data"].get("label") == "OUT"), key=lambda one: change[one["turn"]]
    )


def show(cricket: Serving, episode_id: str, seq: object, **more: Any) -> Response:
    return cricket.client.get(f"/moment/{episode_id}/{seq}", headers={**HTML, **more})


def said(page: Response) -> dict[str, list[str]]:
    """Every property of the link's preview."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)"', page.text):
        found.setdefault(name, []).append(unescape(value))
    return found


def words_of(page: Response) -> str:
    """What the page says went wrong, or cannot be done."""
    found = re.search(r'<p class="notice[^>]*>(.*?)</p>', page.text)
    return unescape(re.sub("<[^>]+>", "", found[1])) if found else ""


def test_a_link_to_a_moment_shows_what_happened(
    cricket: Serving, ended: str, events: list[dict[str, Any]], out: dict[str, Any]
) -> None:
    """Name, chances before and after, words, who plays; the picture first, then the clip."""
    page = show(cricket, ended, out["seq"])
    assert page.status_code == 200
    shown, root = said(page), cricket.base_url
    home = [one["data"]["home"] for one in events if one["type"] == "cricket.forecast"]
    place = [one["turn"] for one in events if one["type"] == "cricket.forecast"].index(out["turn"])
    ball = next(one for one in events if one["type"] == "cricket.ball_bowled" and one["turn"] == out["turn"])
    chances = [round(100 * (one if ball["data"]["side"] == "home" else 1 - one)) for one in home]
    teams = cricket.client.get(f"/api/episodes/{ended}/glance").json()["sides"]
    team = teams[0 if ball["data"]["side"] == "home" else 1]
    assert shown["og:title"] == [f"OUT, {chances[place - 1]} % to {chances[place]} % for {team}"]
    assert out["data"]["text"] in shown["og:description"][0]
    assert all(f"{one}, Old Pro" in shown["og:description"][0] for one in teams)
    clip = f"{root}/clip/{ended}"
    assert shown["og:image"] == [f"{clip}.png?from={out['seq']}", f"{clip}.webp?from={out['seq']}"]
    video = {name: shown[f"og:video{name}"] for name in ("", ":type", ":width", ":height")}
    assert video == {
        "": [f"{clip}.webm?from={out['seq']}"],
        ":type": ["video/webm"],
        ":width": ["640"],
        ":height": ["360"],
    }
    assert "og:video:secure_url" not in shown
    secure = said(show(cricket, ended, out["seq"], Host="show.test"))["og:video:secure_url"]
    assert secure == [f"https://show.test/clip/{ended}.webm?from={out['seq']}"]
    assert shown["og:image:width"] == ["640", "640"] and shown["twitter:card"] == ["summary_large_image"]
    assert shown["og:url"] == [f"{root}/moment/{ended}/{out['seq']}"]
    assert cricket.client.get(shown["og:image"][0].removeprefix(root)).headers["content-type"] == "image/png"
    for part in (f"watch/{ended}?seq={out['seq']}", 'id="copy"', 'method="post"', "emblem--", teams[0]):
        assert part in page.text
    assert not re.search(r"""(?:src|action)=["'](?:/|https?:)""", page.text), "valid below any prefix"


def test_every_event_of_a_turn_is_the_same_moment(
    cricket: Serving, ended: str, events: list[dict[str, Any]], out: dict[str, Any]
) -> None:
    """Also the decisions before the next call; the very end is the result's."""
    turn = [one["seq"] for one in events if one["turn"] == out["turn"]]
    for seq in turn:
        assert said(show(cricket, ended, seq))["og:url"][0].endswith(f"/{out['seq']}")
    quiet = next(
        one["seq"]
        for one in events
        if one["type"] == "decision.made"
        and one["turn"] > out["turn"]
        and not any(other["type"] == "narration.line" for other in events if other["turn"] == one["turn"])
    )
    call = max(one["seq"] for one in events if one["type"] == "narration.line" and one["seq"] < quiet)
    page = said(show(cricket, ended, quiet))["og:url"][0]
    around = {one["turn"] for one in events if one["seq"] in (call, int(page.rsplit("/", 1)[1]))}
    assert len(around) == 1
    assert "nothing to change" in words_of(show(cricket, ended, 1))


@pytest.mark.parametrize(
    ("ball", "facts", "name"),
    [
        ({"kind": "wicket"}, {"hat-trick": 3}, "HAT-TRICK"),
        ({"kind": "wicket"}, {}, ""),
        ({"kind": "six"}, {}, "SIX"),
        ({"kind": "dot"}, {}, "DOT BALL"),
        ({"kind": "run", "bat": 2}, {}, "2 RUNS"),
        ({"kind": "extra", "extra_kind": "noball"}, {}, "NO-BALL"),
    ],
)
def test_a_ball_is_called_what_people_call_it(ball: dict[str, Any], facts: dict[str, int], name: str) -> None:
    assert CRICKET.moment_name is not None
    data = {"bat": 0, "extra_kind": None, **ball}
    happened = Event("ep-1", "e", 3, "", 2, "cricket.ball_bowled", data)
    assert CRICKET.moment_name(happened, {"ledger": {"facts": facts}}) == name


def test_oembed_of_a_moment_is_its_clip(cricket: Serving, ended: str, out: dict[str, Any]) -> None:
    page = show(cricket, ended, out["seq"])
    asked = re.search(r'<link rel="alternate" type="application/json\+oembed" href="([^"]+)"', page.text)
    assert asked
    answer = cricket.client.get(unescape(asked[1]).removeprefix(cricket.base_url)).json()
    assert (answer["version"], answer["type"]) == ("1.0", "rich")
    assert answer["title"].startswith(said(page)["og:title"][0])
    assert f"/clip/{ended}.webp?from={out['seq']}" in answer["html"]
    assert f'href="{cricket.base_url}/moment/{ended}/{out["seq"]}"' in answer["html"]
    assert answer["thumbnail_url"].endswith(f"/clip/{ended}.png?from={out['seq']}")
    assert (answer["width"], answer["height"]) == (640, 360)
    url = f"{cricket.base_url}/moment/{ended}/{out['seq']}"
    small = cricket.client.get("/oembed", params={"url": url, "maxwidth": 320, "maxheight": 300}).json()
    assert (small["width"], small["height"]) == (320, 180)
    for wrong in ("0", "99999", "x", "1/2"):
        assert (
            cricket.client.get("/oembed", params={"url": url.rsplit("/", 1)[0] + f"/{wrong}"}).status_code
            == 404
        )


@pytest.mark.parametrize("seq", ["0", "99999", "-1", "x", "<b>", "٣", "9" * 40])
def test_a_moment_that_is_not_there_says_what_to_do(cricket: Serving, ended: str, seq: str) -> None:
    page = show(cricket, ended, seq)
    assert page.status_code == 404
    assert "Moment not found" in page.text and f'href="../../watch/{ended}"' in page.text
    assert "<b>" not in page.text
    plain = cricket.client.get(f"/moment/{ended}/{seq}")
    assert plain.status_code == 404 and plain.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["ep-nowhere", "x" * 300, "%2e%2e", "<b>"])
def test_a_moment_of_no_episode_leads_to_the_lobby(cricket: Serving, name: str) -> None:
    page = show(cricket, name, 3)
    assert page.status_code == 404 and "Episode not found" in page.text and "watch/" not in page.text


def test_one_click_forks_at_the_moment_for_the_side_that_lost(
    cricket: Serving, ended: str, events: list[dict[str, Any]], out: dict[str, Any]
) -> None:
    """A visitor decides the ball again, with the seat's key in the address."""
    page = show(cricket, ended, out["seq"])
    assert re.search(r'<option value="human">You</option>', page.text)
    started = cricket.client.post(
        f"/moment/{ended}/{out['seq']}", data={"captain": "human"}, headers={"Origin": cricket.base_url}
    )
    assert started.status_code == 303
    place = started.headers["location"]
    fork = re.fullmatch(r"/watch/(ep-\w+)#seat=(home|away)\.\S+", place)
    assert fork
    try:
        begun = cricket.events(fork[1])[0]["data"]
        ball = next(
            one for one in events if one["type"] == "cricket.ball_bowled" and one["turn"] == out["turn"]
        )
        assert begun["parent"]["episode_id"] == ended and begun["parent"]["seq"] < ball["seq"]
        between = [one for one in events if begun["parent"]["seq"] < one["seq"] < ball["seq"]]
        assert not any(one["type"] == "cricket.ball_bowled" for one in between)
        before, after = map(int, re.findall(r"(\d+) %", said(page)["og:title"][0]))
        sides = {"home": "away", "away": "home"}
        loser = ball["data"]["side"] if after <= before else sides[ball["data"]["side"]]
        assert fork[2] == loser and begun["seats"][loser]["source"] == "human"
        busy = cricket.client.post(f"/moment/{ended}/{out['seq']}", headers=HTML)
        assert busy.status_code == 409 and "Try again when one has ended" in words_of(busy), (
            "the one slot is taken"
        )
    finally:
        cricket.client.post("/custom/stop_episode", json={"episode_id": fork[1]}, headers=RIGHT)


@pytest.mark.parametrize("captain", ["nobody", "", "<b>", "oracle", "x" * 3000])
def test_a_captain_that_cannot_decide_there_is_named_as_the_wrong_field(
    cricket: Serving, ended: str, out: dict[str, Any], captain: str
) -> None:
    page = cricket.client.post(f"/moment/{ended}/{out['seq']}", data={"captain": captain}, headers=HTML)
    assert page.status_code == 422 and "captain must be one of human" in words_of(page)
    assert cricket.client.get("/custom/status").json()["running"] == []


def test_other_sites_cannot_change_an_ending(cricket: Serving, ended: str, out: dict[str, Any]) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    assert cricket.client.post(f"/moment/{ended}/{out['seq']}", headers=foreign).status_code == 403


def test_a_paused_server_says_so_and_hidden_names_stay_hidden(
    cricket: Serving, ended: str, out: dict[str, Any]
) -> None:
    def call(path: str, **body: str) -> Response:
        return cricket.client.post(f"/operator/{path}", json=body, headers=RIGHT)

    team = cricket.client.get(f"/api/episodes/{ended}/glance").json()["sides"][0]
    assert call("pause").status_code == 200
    page = show(cricket, ended, out["seq"])
    assert "paused starts" in words_of(page) and 'method="post"' not in page.text
    assert cricket.client.post(f"/moment/{ended}/{out['seq']}", headers=HTML).status_code == 503
    assert call("resume").status_code == 200
    for name in (team, "Old Pro"):
        assert call("hide", name=name).status_code == 200
    try:
        page = show(cricket, ended, out["seq"])
        assert "(name hidden)" in page.text and team not in page.text and "Old Pro" not in page.text
    finally:
        for name in (team, "Old Pro"):
            call("unhide", name=name)


def test_a_world_without_clips_and_chances_has_moments_too(serving: Serving) -> None:
    episode_id = serving.start()
    serving.finish(episode_id)
    page = serving.client.get(f"/moment/{episode_id}/4", headers=HTML)
    assert page.status_code == 200
    assert said(page)["og:image"] == [f"{serving.base_url}/card/{episode_id}.png"]
    assert said(page)["og:title"][0] and "<img" not in page.text
    answer = serving.client.get("/oembed", params={"url": f"{serving.base_url}/moment/{episode_id}/4"})
    assert "<iframe" in answer.json()["html"]


def test_a_server_of_another_offer_says_so(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as serving:
        episode_id = serving.start(options={"turns": 6})
        serving.finish(episode_id)
        last = serving.client.get(f"/api/episodes/{episode_id}").json()["head_seq"]
    with serve(test_settings(tmp_path, option_limits="turns=5")) as serving:
        page = serving.client.get(f"/moment/{episode_id}/{last}", headers=HTML)
        assert "at most 5 here" in words_of(page) and 'method="post"' not in page.text
