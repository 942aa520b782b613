"""The tests of the HTML pages: what each is given, what it escapes, where it leads."""

from __future__ import annotations

import asyncio
import dataclasses
import html
import re
from pathlib import Path
from typing import cast
from urllib.parse import urljoin

import pytest

from server.http import previews
from server.http.assets import folder, modules_of
from server.http.moments import MomentPage
from server.http.pages import ErrorPage, LobbyPage, ReaderPage, WatchPage
from server.services import Services
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import JournalError
from spectator.journal.sql_journal import SqlJournal
from tests.serving import Serving, serve, test_settings

TEMPLATES = {
    "lobby.html": LobbyPage,
    "watch.html": WatchPage,
    "reader.html": ReaderPage,
    "error.html": ErrorPage,
    "moment.html": MomentPage,
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_context_holds_what_its_template_uses_and_nothing_else(template: str) -> None:
    """Every field is used by the template or its base, and every use has a field."""
    text = (folder("templates") / template).read_text("utf-8") + (
        folder("templates") / "base.html"
    ).read_text("utf-8")
    used = set(re.findall(r"page\.([a-z_]+)", text))
    assert used == {field.name for field in dataclasses.fields(TEMPLATES[template])}


def test_templates_hold_no_script_no_style_and_name_no_world() -> None:
    """Nothing inline, so that the policy can forbid it; nothing that knows a game."""
    for path in sorted(folder("templates").glob("*.html")):
        text = path.read_text("utf-8")
        assert not re.search(r"<script(?![^>]*\bsrc=)", text), path.name
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text), path.name
        assert not re.search(r"cricket|collider|counting|wicket|innings", text, re.IGNORECASE), path.name


def test_shared_scripts_name_no_world() -> None:
    """The shell knows no game."""
    for path in sorted(folder("static").rglob("*.js")):
        text = path.read_text("utf-8")
        assert not re.search(r"cricket|collider|counting\b|wicket|innings", text, re.IGNORECASE), path.name


@pytest.mark.parametrize("path", ["/", "/web"])
def test_the_lobby_is_at_both_of_its_addresses(serving: Serving, path: str) -> None:
    """Spaces open /web; everything on the page is named relative to where it is served."""
    answer = serving.client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert "Watch agents play." in answer.text
    assert not re.search(r"""(?:href|src)=["'](?:/|https?:)""", answer.text)


def test_every_file_a_page_names_is_there_and_never_changes(serving: Serving) -> None:
    """Scripts, styles, modules and panels answer 200, with the right type, for a year."""
    episode_id = serving.start()
    serving.finish(episode_id)
    for path in ("/", f"/watch/{episode_id}", f"/replay/{episode_id}"):
        page = serving.client.get(path).text
        ours = re.sub(r'<link rel="alternate"[^>]+>', "", page)
        named = re.findall(r"""<(?:link|script)[^>]+(?:href|src)="([^"]+)\"""", ours)
        assert 5 <= len(named) <= 8
        for name in named:
            answer = serving.client.get(urljoin(f"{serving.base_url}{path}", name))
            assert answer.status_code == 200, name
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable", name
            kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
            assert answer.headers["content-type"].startswith(kinds[Path(name).suffix]), name
            assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_asks_for_one_script_and_its_world_for_one_more(serving: Serving) -> None:
    """Two sheets and the theme beside them; nothing to be found out after a script was read."""
    episode_id = serving.start()
    serving.finish(episode_id)
    page = serving.client.get(f"/watch/{episode_id}").text
    scripts = re.findall(r'(?:modulepreload" href|script[^>]+src)="[^"]+/([a-z]+\.js)"', page)
    assert sorted(scripts) == ["panel.js", "theme.js", "watch.js"]
    for address in re.findall(r'"([^"]+/(?:watch|panel)\.js)"', page):
        script = serving.client.get(urljoin(f"{serving.base_url}/watch/x", address)).text
        assert "import{" not in script and "@ts-check" not in script
    assert len(re.findall(r'rel="stylesheet"', page)) == 3


def test_for_development_every_module_is_sent_as_it_is_written_and_preloaded(tmp_path: Path) -> None:
    """No module is found only after another was fetched and read, and none is there that no page needs."""
    with serve(test_settings(tmp_path, join_assets=False)) as serving:
        episode_id = serving.start()
        serving.finish(episode_id)
        preloaded: set[str] = set()
        for path in (
            "/",
            "/wall",
            "/compare",
            "/rollouts",
            "/rollouts/r",
            "/group/g",
            f"/watch/{episode_id}",
            f"/moment/{episode_id}/1",
        ):
            page = serving.client.get(path).text
            preloaded |= set(re.findall(r'modulepreload" href="[^"]*?/static/[0-9a-f]+/([^"]+)"', page))
            for sheet in re.findall(r'stylesheet" href="([^"]+)"', page):
                assert serving.client.get(urljoin(f"{serving.base_url}{path}", sheet)).status_code == 200
    preloaded |= set(
        modules_of(folder("static"), "reader.js")
    )  # of imported episodes, which this has none of
    modules = {
        path.relative_to(folder("static")).as_posix()
        for name in ("live", "ui", "charts")
        for path in (folder("static") / name).glob("*.js")
    }
    static = folder("static")
    later = {
        f"{name.split('/')[0]}/{fetched}"
        for name in modules
        for fetched in re.findall(
            r'(?:await |all\(\[)import\("\./([^"]+)"\)', (static / name).read_text("utf-8")
        )
    }
    assert {"ui/seat.js", "ui/starts.js", "live/past_parts.js"} <= later
    used_later = {*later, *(module for name in later for module in modules_of(static, name))}
    assert preloaded | used_later == modules
    assert "ui/seat.js" not in preloaded


def test_a_deep_link_in_the_query_leads_to_the_very_event(serving: Serving) -> None:
    """A Space hands only its query on: ?ep=&seq= is sent on, anything odd is just the lobby."""
    answer = serving.client.get("/", params={"ep": "ep-1", "seq": "42"})
    assert (answer.status_code, answer.headers["location"]) == (303, "./watch/ep-1?seq=42")
    assert serving.client.get("/", params={"ep": "ep-1", "seq": "x"}).headers["location"] == "./watch/ep-1"
    for odd in ("//evil.example", "../x", "a b", "", "\r\nSet-Cookie: x", "x" * 65):
        assert serving.client.get("/", params={"ep": odd}).status_code == 200


@pytest.mark.parametrize(
    "name", ["ep-nowhere", "<img src=x onerror=alert(1)>", "..%2f..%2fetc%2fpasswd", "x" * 300, "%00", "é"]
)
def test_an_unknown_episode_is_a_page_that_says_so(serving: Serving, name: str) -> None:
    """404 as a page, escaped, with the way back."""
    answer = serving.client.get(f"/watch/{name}")
    assert answer.status_code == 404
    if "%2f" not in name:
        assert "Episode not found" in answer.text
        assert 'href="../"' in answer.text
    assert "<img" not in answer.text


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize(
    ("path", "root"),
    [("/nowhere", "./"), ("/a/b/c", "../../"), ("/<img src=x>/", "../"), ("/wall/x", "../")],
)
def test_an_unknown_page_is_a_page_for_browsers(serving: Serving, path: str, root: str) -> None:
    for answer in (serving.client.get(path, headers=BROWSER), serving.client.get(path)):
        assert answer.status_code == 404
        if answer.request.headers["accept"] == "*/*":
            assert answer.headers["content-type"] == "application/problem+json"
            continue
        assert answer.headers["content-type"].startswith("text/html")
        assert "Page not found" in answer.text and "<img" not in answer.text
        assert f'href="{root}"' in answer.text
        (style,) = re.findall(r'href="([^"]+/tokens[^"]*\.css)"', answer.text)
        assert serving.client.get(str(answer.url.join(style))).status_code == 200, style


@pytest.mark.parametrize("page", ["watch", "replay"])
def test_an_unknown_episode_is_a_problem_for_api_clients(serving: Serving, page: str) -> None:
    answer = serving.client.get(f"/{page}/ep-nowhere", headers={"Accept": "application/json"})
    assert answer.status_code == 404 and answer.json()["type"] == "/problems/episode-not-found"
    assert (
        serving.client.get(f"/{page}/ep-nowhere", headers=BROWSER).text.lstrip().startswith("<!doctype html>")
    )


@pytest.mark.parametrize("path", ["/static/{digest}/../../pyproject.toml", "/static/{digest}/__init__.py"])
def test_nothing_but_the_pages_files_is_served(serving: Serving, path: str) -> None:
    """No source, no settings, no way out of the folder."""
    digest = re.findall(r"static/([0-9a-f]{12})/", serving.client.get("/").text)[0]
    assert serving.client.get(path.format(digest=digest)).status_code == 404
    assert serving.client.get(f"/static/{digest}/%2e%2e/pyproject.toml").status_code == 404
    assert serving.client.get("/static/000000000000/lobby.js").status_code == 404


def test_panels_are_served_by_world_and_digest_alone(serving: Serving) -> None:
    """An older digest, another file, another world or a path is 404."""
    page = serving.client.get(f"/watch/{serving.start()}").text
    digest = re.findall(r"panels/counting/([0-9a-f]{12})", page)[0]
    assert serving.client.get(f"/panels/counting/{digest}/panel.js").status_code == 200
    for wrong in (
        "/panels/counting/000000000000/panel.js",
        f"/panels/counting/{digest}/world.py",
        f"/panels/counting/{digest}/..%2fworld.py",
        f"/panels/counting/{digest}/%2e%2e",
        f"/panels/nowhere/{digest}/panel.js",
        f"/panels/counting/{digest}/missing.js",
    ):
        assert serving.client.get(wrong).status_code == 404, wrong


def test_the_picture_of_a_world_s_tiles_is_found_without_its_digest(serving: Serving) -> None:
    """By way of a redirection that is asked for again, to a file that is kept; 404 where nothing is drawn."""
    found = serving.client.get("/panels/cricket/tile.js")
    assert found.status_code == 307 and found.headers["cache-control"] == "no-cache"
    module = serving.client.get("/panels/cricket/tile.js", follow_redirects=True)
    assert re.fullmatch(r"/panels/cricket/[0-9a-f]{12}/tile.js", module.url.path)
    assert module.status_code == 200 and "immutable" in module.headers["cache-control"]
    assert "import" not in module.text
    for nothing in ("counting", "nowhere", "..%2fcricket"):
        assert serving.client.get(f"/panels/{nothing}/tile.js").status_code == 404


def test_a_link_shows_what_it_leads_to(serving: Serving) -> None:
    """Title and description for where it is shared: the result and who played; escaped, like all text."""
    episode_id = serving.start(captain_preset="heuristic")
    serving.finish(episode_id)
    page = html.unescape(serving.client.get(f"/watch/{episode_id}").text)
    summary = serving.client.get(f"/api/episodes/{episode_id}").json()
    told = dict(re.findall(r'<meta (?:property|name)="([a-z:]+)" content="([^"]*)">', page))
    assert told["og:title"] == f"{summary['result']} · {summary['title']}"
    assert summary["captain_label"] in told["og:description"] and "Replay" in told["og:description"]
    assert told["description"] == told["og:description"]
    assert told["og:image"] == f"{serving.base_url}/card/{episode_id}.png"
    assert serving.client.get(told["og:image"]).headers["content-type"] == "image/png"
    (oembed,) = re.findall(r'application/json\+oembed" href="([^"]+)"', page)
    assert serving.client.get(oembed).json()["title"] == told["og:title"]
    assert f"<title>{told['og:title']} · Spectator</title>" in page


def test_a_link_to_what_is_played_says_that_it_is_live(serving: Serving) -> None:
    """Who plays stands in the place of the result."""
    episode_id = serving.start(pace="broadcast", options={"turns": 50})
    page = serving.client.get(f"/watch/{episode_id}").text
    serving.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    told = dict(re.findall(r'<meta (?:property|name)="([a-z:]+)" content="([^"]*)">', page))
    assert told["og:description"].startswith("Live now") and told["og:title"].endswith(" · Counting")


def test_a_page_says_how_it_stands_before_any_script_runs(serving: Serving) -> None:
    """The headline of what runs, the result of what is over; nothing where the page begins elsewhere."""
    over = serving.start(options={"turns": 2})
    result = serving.finish(over)["result"]
    live = serving.start(pace="broadcast", options={"turns": 1000})
    first = re.compile(r'id="first"><bdi>([^<]+)</bdi>')
    told = first.search(serving.client.get(f"/watch/{live}").text)
    assert told is not None and told[1] in ("Nothing said yet", "0 of 1000 counted", "1 of 1000 counted")
    told = first.search(serving.client.get(f"/watch/{over}").text)
    assert told is not None and html.unescape(told[1]) == result
    for elsewhere in (f"/replay/{over}", f"/watch/{over}?seq=2", f"/watch/{live}?at=1"):
        assert not first.search(serving.client.get(elsewhere).text), elsewhere
    serving.client.post("/custom/stop_episode", json={"episode_id": live})


def test_a_page_does_not_wait_for_a_record_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes without how the episode stands; that the record fails later is nobody's error here."""
    heard: list[str] = []

    class Away:
        """An episode whose record cannot be read now, or not yet."""

        head_seq = 3

        def __init__(self, *, stuck: bool) -> None:
            self._stuck = stuck

        async def open(self) -> None:
            """Wait for ever, or fail."""
            heard.append("asked")
            if self._stuck:
                await asyncio.get_running_loop().create_future()
            raise JournalError("gone")

    monkeypatch.setattr(previews, "PATIENCE_S", 0)
    for stuck in (True, False):
        away = cast(EpisodeHandle, Away(stuck=stuck))
        assert asyncio.run(previews.headline_now(cast(Services, None), away)) == ""
    assert heard == ["asked", "asked"]


def test_the_lobby_comes_also_where_the_record_cannot_be_read(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: object, wanted: object) -> None:
        raise JournalError("the disk is gone")

    monkeypatch.setattr(SqlJournal, "episodes", fail)
    answer = serving.client.get("/")
    assert answer.status_code == 200
    assert "The record is unavailable right now." in answer.text and "Start a match" in answer.text
