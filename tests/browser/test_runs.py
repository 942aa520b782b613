"""A run that is played elsewhere is watched in the browser, and its groups, to their end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from tests.browser.conftest import PHONE, Opener
from tests.following.gated_run import gated_run
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Watched:
    """A run under way, the server that watches it, and what lets it go on."""

    serving: Serving
    gate: Event
    root: Path


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    root = tmp_path_factory.mktemp("runs")
    settings = test_settings(tmp_path_factory.mktemp("data"), runs_dir=root, max_episodes=4)
    with serve(settings) as serving, gated_run(root / "live") as gate:
        yield Watched(serving, gate, root)


def test_rewards_and_advantages_of_siblings_form_live_and_nothing_is_asked_for_again(
    watched: Watched, open_page: Opener
) -> None:
    page = open_page("about:blank", forgive=("404",))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    playing = page.locator(".sibling .badge", has_text="running")
    rewards = page.locator(".sibling__earned span").filter(has_text=re.compile(r" reward$"))
    advantages = page.locator(".sibling__earned span").filter(has_text=re.compile(r" advantage$"))
    with RecordedRun(watched.root / "siblings", group_size=4) as run:
        siblings = [TextEpisode("counting", {"turns": 3}, run=run) for _ in range(4)]
        for one in siblings:
            one.reset(seed=7)
            one.use("say", {"text": "ACTION: 1"})
        run.flush()
        page.goto(f"{watched.serving.base_url}/group/g-000000?run=siblings")
        expect(page.locator("#state")).to_have_text("Live")
        expect(playing).to_have_text(["turn 1, running"] * 4)
        expect(page.locator("#where")).to_have_text("Decision 1 of 1")
        assert len([path for path in asked if path.endswith("/events")]) == 4
        for over, one in enumerate(siblings, start=1):
            one.use("say", {"text": "ACTION: 2"})
            one.use("say", {"text": f"ACTION: {3 + over % 2}"})
            expect(page.locator("#figures")).to_contain_text(f"{over} of 4 finished")
            expect(playing).to_have_count(4 - over)
            expect(rewards).to_have_count(over)
            expect(advantages).to_have_count(over)
        expect(page.locator("#state")).to_have_text("Finished")
        expect(page.locator("#part")).to_contain_text("At decision 3 of 3")
        expect(page.locator(".sibling__earned").first).to_contain_text("−0.866 advantage")
    assert [path for path in asked if "/groups/" in path] == ["/api/groups/g-000000"]
    read = [path for path in asked if path.endswith("/events")]
    assert len(read) <= 4 + 2 * 4, "siblings that stand still are not read again"


def test_a_group_whose_run_vanishes_keeps_what_was_read_and_says_so(
    watched: Watched, open_page: Opener
) -> None:
    with RecordedRun(watched.root / "going", group_size=2) as run:
        TextEpisode("counting", {"turns": 3}, run=run).reset(seed=7)
    page = open_page(f"{watched.serving.base_url}/group/g-000000?run=going", forgive=("404",))
    expect(page.locator("#figures")).to_contain_text("1 of 1 finished")
    expect(page.locator("#state")).to_have_text("Finished")
    (watched.root / "going").rename(watched.root.parent / "gone")
    expect(page.locator("#say")).to_contain_text("Showing the last data read.")
    expect(page.locator(".sibling")).to_have_count(1)


def test_a_run_is_watched_live_from_the_list_to_its_end(watched: Watched, open_page: Opener) -> None:
    page = open_page(f"{watched.serving.base_url}/rollouts")
    page.locator(".runcard", has_text="live").click()
    expect(page.locator("#figures")).to_contain_text("0 of 8 episodes finished")
    expect(page.locator("#slowest li").first).to_contain_text("waiting for")
    expect(page.locator(".cell[data-standing=playing]").first).to_be_visible()
    address = str(page.locator("#slowest a").first.evaluate("link => link.href"))
    episode = open_page(address)
    expect(episode.locator("#state")).to_contain_text("Live")
    group = open_page(f"{watched.serving.base_url}/group/g-000000?run=live&at=1")
    expect(group.locator("#where")).to_contain_text("Decision 1 of")
    watched.gate.set()
    expect(page.locator("#figures")).to_contain_text("8 of 8 episodes finished")
    expect(group.locator("#figures")).to_contain_text("4 of 4 finished")
    expect(group.locator("#where")).to_have_text("Decision 1 of 4")
    expect(group.locator(".sibling .badge", has_text="running")).to_have_count(0)
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.locator(".cell[data-standing=over]")).to_have_count(8)
    expect(page.locator(".group .badge").first).to_have_text("complete · 4 of 4")
    expect(episode.locator("#state")).not_to_contain_text("Live")
    page.get_by_label("Search groups and episodes").fill("g-000001")
    expect(page.locator("#groups > *")).to_have_count(1)
    page.reload()
    expect(page.locator("#shown")).to_contain_text("1 of 2 groups")


def test_siblings_stand_side_by_side_and_part_where_they_part(watched: Watched, open_page: Opener) -> None:
    watched.gate.set()
    page = open_page(f"{watched.serving.base_url}/group/g-000000?run=live", viewport=PHONE)
    expect(page.locator(".sibling")).to_have_count(4)
    expect(page.locator("#figures")).to_contain_text("4 of 4 finished")
    page.keyboard.press("Home")
    expect(page.locator("#where")).to_have_text("Decision 1 of 4")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#where")).to_have_text("Decision 2 of 4")
    assert page.url.endswith("at=2")
    page.keyboard.press("3")
    expect(page.locator("#sibling-3")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("#sibling-3").get_by_role("button", name="Play on from here").click()
    page.get_by_label("Captain", exact=True).select_option("heuristic")
    page.get_by_role("dialog").get_by_label("Pace").select_option("max")
    page.get_by_role("dialog").get_by_role("button", name="Play on from here").click()
    page.wait_for_url("**/watch/**")
    page.go_back()
    expect(page.locator(".sibling[data-branch=yes]")).to_have_count(1)
    page.get_by_role("link", name="live").click()
    page.wait_for_url("**/rollouts/live")
    page.get_by_role("link", name="Runs").click()
    page.wait_for_url("**/rollouts")


def test_a_decision_is_noted_in_the_player(watched: Watched, open_page: Opener) -> None:
    watched.gate.set()
    page = open_page(f"{watched.serving.base_url}/group/g-000001?run=live")
    expect(page.locator("#figures")).to_contain_text("4 of 4 finished")
    page.locator("#sibling-1").get_by_role("link", name="Open here").click()
    expect(page.locator("#mind .mind__who").first).to_be_visible()
    page.keyboard.press("i")
    dialog = page.get_by_role("dialog", name="Decision")
    expect(dialog).to_contain_text("Proposed")
    dialog.locator("summary", has_text="Prompt, reply").click()
    expect(dialog).to_contain_text("Written by weights w7.")
    dialog.locator("summary", has_text="Notes and labels").click()
    dialog.get_by_label("Your name").fill("Ada")
    dialog.get_by_label("Note", exact=True).fill("<b>calm</b>")
    dialog.get_by_role("button", name="Save note").click()
    expect(dialog.locator(".notes__list li")).to_contain_text("<b>calm</b>")
    expect(dialog.locator(".notes__list b")).to_have_count(0)
    dialog.get_by_role("button", name="delete").click()
    expect(dialog.locator(".notes__list")).to_contain_text("No notes yet.")


def test_what_is_not_there_is_said(watched: Watched, open_page: Opener) -> None:
    page = open_page("", forgive=("404",))
    for place, what, title in (
        ("rollouts/nothing", "There is no run nothing here; it may have been moved or removed.", "nothing"),
        ("group/g-none", "Group g-none not found.", "Group g-none"),
    ):
        page.goto(f"{watched.serving.base_url}/{place}")
        expect(page.locator("#say")).to_contain_text(what)
        expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
        page.locator("#say").get_by_role("link", name="Back to the runs").click()
        expect(page).to_have_url(f"{watched.serving.base_url}/rollouts")
