"""Whose decision it was, in sight: a badge wherever it is named, a ribbon, a list, and what was behind it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from spectator.errors import FAILURES
from tests.browser.conftest import PHONE, Opener, violations
from tests.llm.brains import pundit
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.serving import ROOT, Serving, serve, test_settings

pytestmark = pytest.mark.browser


class Match(NamedTuple):
    """A finished match in which an endpoint sometimes failed."""

    app: Serving
    address: str
    failed: list[int]
    """Numbers of the decisions that were made for the model."""
    balls: list[int]
    """Numbers of the balls that such a decision played or bowled."""
    wordy: list[int]
    """Numbers of the balls for which a captain gave a long reason."""


@pytest.fixture(scope="module")
def match(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Match]:
    """One match of two overs for all the tests of this module."""
    folder = tmp_path_factory.mktemp("decisions")
    modes = [*[Mode.OK] * 12, *[Mode.GARBAGE, Mode.REFUSAL, Mode.OK] * 60]
    with endpoint(pundit, modes) as home:
        table = {
            "base_url": home.base_url,
            "label": "Kestrel",
            "price_in": 0.4,
            "price_out": 1.6,
            "retries": 0,
        }
        captains = write_captains(folder / "captains.toml", home=table)
        settings = test_settings(folder, environment="cricket", captains_file=captains, llm_live="llm:home")
        with serve(settings) as app:
            options = {"max_overs": 2, "forecast_futures": 400}
            episode_id = app.start(seed=5, captain_preset="llm:home", options=options)
            app.finish(episode_id)
            events = app.events(episode_id)
            made = [event for event in events if event["type"] == "decision.made"]
            failed = [event["seq"] for event in made if event["data"]["source"] == "fallback"]
            balls = {
                event["seq"]: behind(event) for event in events if event["type"] == "cricket.ball_bowled"
            }
            for_it = [seq for seq, made in balls.items() if any(one["source"] == "fallback" for one in made)]
            wordy = [seq for seq, made in balls.items() if any(len(one["reasoning"]) > 120 for one in made)]
            yield Match(app, f"{app.base_url}/watch/{episode_id}", failed, for_it, wordy)


def behind(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The decisions of both captains on a ball."""
    state = event["patch"]["world"]["last_ball"]["decisions"]
    return [{"source": "", "reasoning": "", **one} for one in state.values()]


def test_a_decision_made_for_a_model_is_marked_wherever_it_is_named(match: Match, open_page: Opener) -> None:
    """On the mind card, on the ball card, on the line of commentary, and in the ribbon."""
    assert match.failed and match.balls
    page = open_page(f"{match.address}?seq={match.failed[0]}")
    expect(page.locator("#mind .badge--foreign:visible")).to_have_text(
        re.compile("made by the fallback: the (endpoint|model) ")
    )
    badge = page.locator(".feed__line .badge--foreign")
    page.keyboard.press("l")
    expect(badge.first).to_contain_text("made by the fallback")
    page.goto(f"{match.address}?seq={match.balls[0]}")
    expect(page.locator(".ball__side .badge--foreign:visible")).to_contain_text("made by the fallback: the ")
    ribbon = page.locator(".player__deciders").first
    expect(ribbon).to_have_attribute("title", "Decided by: model, fallback")
    expect(ribbon).to_have_css("background-image", re.compile("^linear-gradient"))


@pytest.mark.parametrize("size", [(1280, 800), (1440, 900)])
def test_the_end_of_a_models_match_leaves_room_for_what_is_asked(
    match: Match, open_page: Opener, size: tuple[int, int]
) -> None:
    """For the report with what next; for the list of decisions, beside which both calls stay."""
    page = open_page(match.address, viewport={"width": size[0], "height": size[1]})
    bar, rematch = page.locator("#player").bounding_box(), page.get_by_role("button", name="Rematch")
    expect(rematch).to_be_visible()
    box = rematch.bounding_box()
    assert bar and box and box["y"] + box["height"] < bar["y"]
    page.keyboard.press("d")
    expect(page.locator(".log__row").first).to_be_visible()
    for call in page.locator(".mind__seat .call").all():
        expect(call).to_be_in_viewport(ratio=0.9)
    row = page.locator(".log__row").first.bounding_box()
    assert row and row["y"] + row["height"] < bar["y"]


LONG_REASON = "unusable: 'fly_to_the_moon' is not legal now; legal: " + "play_delivery, plan_shot, " * 10


def test_why_the_fallback_had_to_decide_can_be_read_at_once(match: Match, open_page: Opener) -> None:
    """Whole on a desk, above the call, without scrolling within the card, up to its longest."""
    page = open_page(f"{match.address}?seq={match.failed[0]}", viewport={"width": 1440, "height": 900})
    note = page.locator(".mind__note", has_text="The fallback had to decide")
    expect(note).to_be_visible()
    note.locator("bdi").evaluate("(it, text) => { it.textContent = text; }", LONG_REASON[:300])
    for width, height in ((1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        rest = note.evaluate(
            """(it) => it.closest(".mind__seat").querySelector(".call").getBoundingClientRect().top
                - it.getBoundingClientRect().bottom"""
        )
        assert rest >= 0, f"{-rest} px of it are out of sight at {width} px"


SHORT_REASON = "Seventeen off the last over and nine wickets down, so hit whatever is there to be hit."
LONG_BADGE = "made by the fallback: the endpoint is paused after failures"
CUT_OFF = """([text, badge]) => [...document.querySelectorAll(".ball__side")].flatMap((side) => {
  side.querySelector(".ball__foreign").hidden = false;
  side.querySelector(".ball__foreign").textContent = badge;
  side.querySelector(".ball__reason bdi").textContent = text;
  return [...side.querySelectorAll(".ball__said, .ball__reason")]
    .filter((it) => it.scrollHeight > it.clientHeight + 1)
    .map((it) => `${it.className} ${it.scrollHeight - it.clientHeight}`);
})"""


def test_what_a_captain_said_on_a_ball_is_not_cut_off(match: Match, open_page: Opener) -> None:
    """Neither it nor whose decision it was, where it is too short to be folded; how high they are stays."""
    page = open_page(f"{match.address}?seq={match.balls[0]}")
    expect(page.locator(".ball__said").first).to_be_visible()
    page.locator(".ball__reason .more").evaluate_all("(all) => all.forEach((it) => { it.hidden = true; })")
    for width in (390, 660, 820, 1000, 1101, 1280, 1399, 1400, 1440, 1599, 1600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT_OFF, [SHORT_REASON[:84], LONG_BADGE]) == [], f"at {width} px"
    high = page.locator(".ball-why").evaluate("(it) => it.offsetHeight")
    page.locator(".ball__foreign").evaluate_all("(all) => all.forEach((it) => { it.hidden = true; })")
    assert page.locator(".ball-why").evaluate("(it) => it.offsetHeight") == high


def test_what_is_worth_next_to_nothing_has_no_sign(match: Match, open_page: Opener) -> None:
    page = open_page(match.address)
    expect(page.locator("#state")).to_have_text("Finished")
    page.keyboard.press("Home")
    for _ in range(len(match.balls)):
        page.keyboard.press("ArrowRight")
        assert not re.search(r"worth [+−]0\.0 ", page.locator(".ball-why").inner_text())


def test_a_long_reason_can_be_opened_and_read(match: Match, open_page: Opener) -> None:
    """Its button lies inside what is in sight; opened, all of it does."""
    for viewport in ({"width": 1440, "height": 900}, PHONE):
        page = open_page(f"{match.address}?seq={match.wordy[0]}", viewport=viewport)
        more = page.locator(".ball__reason .more:visible").first
        expect(more).to_be_visible()
        assert inside(page)
        more.click()
        expect(more).to_have_text("less")
        assert inside(page)


def inside(page: Page) -> bool:
    """Whether the button of the first reason lies whole within the box that cuts its text off."""
    found: bool = page.evaluate(
        """() => {
            const button = document.querySelector(".ball__reason .more:not([hidden])");
            const [inner, outer] = [button, button.closest(".ball__said")]
                .map((one) => one.getBoundingClientRect());
            return inner.height > 10 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
        }"""
    )
    return found


def test_the_timeline_marks_a_handful_of_moments_that_lead_there(match: Match, open_page: Opener) -> None:
    """Never more than ten; each says what it is and goes there."""
    page = open_page(match.address)
    expect(page.locator("#state")).to_have_text("Finished")
    marks = page.locator(".player__mark")
    assert 3 <= marks.count() <= 10
    expect(marks.first).to_have_attribute("title", re.compile("."))
    marks.first.click()
    expect(page.locator("#state")).to_have_text("Replay")


def test_every_class_of_failure_has_its_words() -> None:
    """The page's few words for each class that there is."""
    source = (ROOT / "static" / "live" / "decisions.js").read_text("utf-8")
    words = re.search(r"FAILURE_WORDS = \{(.*?)\};", source, re.DOTALL)
    assert words
    assert set(re.findall(r"(\w+): \"", words[1])) == set(FAILURES)


def test_every_decision_is_listed_filtered_in_the_address_and_leads_there(
    match: Match, open_page: Opener
) -> None:
    """A list that draws what is in sight; by source; by what was refused; a click stands at the decision."""
    page = open_page(match.address)
    expect(page.locator("#state")).to_have_text("Finished")
    page.keyboard.press("d")
    told = page.locator(".log__told")
    expect(told).to_have_text(re.compile(r"^(\d+) of \1 decisions, worth [+−]?\d+\.\d in all$"))
    assert 3 <= page.locator(".log__row").count() < 40
    expect(page.locator("#feed").get_by_role("heading", name="Decisions")).to_be_visible()
    page.get_by_label("By source").select_option("fallback")
    expect(told).to_have_text(re.compile(rf"^{len(match.failed)} of "))
    assert "log=1" in page.url and "source=fallback" in page.url
    page.reload()
    expect(told).to_have_text(re.compile(rf"^{len(match.failed)} of "))
    expect(page.locator(".log__row .badge--foreign").first).to_contain_text("made by the fallback")
    page.locator(".log__go").nth(2).click()
    expect(page.locator("#state")).to_have_text("Replay")
    page.keyboard.press("ArrowRight")
    page.get_by_label("By worth").select_option("refused")
    expect(told).to_have_text(re.compile(r"^0 of "))
    assert not violations(page, "#feed")
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.get_by_role("tab", name="Live", exact=True).click()
    expect(told).to_be_hidden()
    page.reload()
    expect(told).to_be_visible()


def test_what_was_behind_a_decision_opens_by_a_key(match: Match, open_page: Opener) -> None:
    """Tokens in and out, time, the cost to its last digit; the prompt once it is asked for."""
    page = open_page(f"{match.address}?seq={match.failed[0] - 1}")
    expect(page.locator("#mind .mind__who").first).to_be_visible()
    page.keyboard.press("i")
    dialog = page.get_by_role("dialog", name="Decision")
    for _ in range(6):  # to one of the model's own, whoever decided last
        if "Cost" not in dialog.locator(".facts").inner_text():
            dialog.get_by_role("button", name="Previous").click()
    facts = dialog.locator(".facts")
    expect(facts).to_contain_text(re.compile(r"Tokens\s*[\d,]+ tokens in, \d+ out"))
    expect(facts).to_contain_text(re.compile(r"Cost\s*US\$\d+\.\d{3,6}"))
    dialog.locator("summary", has_text="Prompt, reply and tokens as sent").click()
    expect(dialog.locator(".inspect__message h5").first).to_have_text("system")
    expect(dialog).to_contain_text("The endpoint returned no token probabilities.")
    assert not violations(page, "dialog[open]")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_prompt_is_refused_in_words_and_its_tokens_are_coloured(match: Match, open_page: Opener) -> None:
    """Whoever may not read prompts is told so; where the record has probabilities there is a cell a token."""
    page = open_page("", forgive=("Failed to load resource",))
    refusal = {"status": 401, "json": {"detail": "This needs the operator’s token."}}
    call = {"messages": [{"role": "user", "content": "hello"}], "logprobs": [-0.01, -2.0, None]}
    call |= {
        "mask": [0, 1, 0, 1],
        "weight_versions": [["w1", 1], ["w2", 2]],
        "reply": {"content": "<b>mid-off</b>"},
    }
    answers = [refusal, {"status": 200, "body": json.dumps(call)}]
    page.route("**/calls?*", lambda route: route.fulfill(**answers.pop(0)))
    page.goto(f"{match.address}?seq={match.failed[0]}")
    page.locator("#mind .mind__inspect:visible").first.click()
    dialog = page.get_by_role("dialog", name="Decision")
    summary = dialog.locator("summary", has_text="Prompt, reply and tokens as sent")
    summary.click()
    expect(dialog.get_by_role("status")).to_contain_text("Only operators may read prompts")
    summary.click()
    summary.click()
    expect(dialog.locator("[role=img] .tokens__one")).to_have_count(3)
    surprising = dialog.locator(".tokens .tokens__one").nth(1)
    expect(surprising).to_have_class(re.compile("tokens__one--3"))
    told = "token 2: 13.5 %, entropy about 1.00 nats, weights w2, does not count in training"
    expect(surprising).to_have_attribute("title", told)
    dialog.get_by_role("button", name="by entropy").click()
    expect(dialog.locator(".tokens .tokens__one").first).to_have_class(re.compile("tokens__one--3"))
    expect(dialog).to_contain_text("2 of 3 tokens of the answer count in training")
    expect(dialog).to_contain_text("Written by weights w1, then w2.")
    expect(dialog.locator(".inspect__message", has_text="The reply as received")).to_contain_text(
        "<b>mid-off</b>"
    )
    assert dialog.locator(".inspect__message b").count() == 0


def test_a_large_swing_is_explained_by_calls_and_luck(match: Match, open_page: Opener) -> None:
    """On the win line and in the ending: a sentence that leads to its ball; all of them in a list."""
    page = open_page(match.address)
    why = page.locator(".chances__why")
    sentence = re.compile(r"Why it moved: .+ \+\d+: .*how the .+ came out")
    expect(why).to_have_text(sentence)
    expect(page.locator(".ending__turns").first).to_contain_text(re.compile(r"\+\d+: .*how the .+ came out"))
    page.locator(".chances-story summary").click()
    every = page.locator(".chances__every li")
    assert every.count() >= 2
    every.last.locator("a").click()
    expect(page.locator("#state")).to_have_text("Replay")
    expect(why).to_have_text(sentence)
    expect(page.locator(".chances-story summary")).to_be_hidden()


@pytest.mark.parametrize("viewport", [{"width": 1440, "height": 900}, PHONE], ids=["wide", "phone"])
def test_the_page_of_reliability_has_nothing_wrong(
    match: Match, open_page: Opener, viewport: dict[str, int]
) -> None:
    """Its drawing and its figures, at both sizes."""
    page = open_page(f"{match.app.base_url}/reliability", viewport=viewport)
    expect(page.get_by_role("heading", name=re.compile("1 match"))).to_be_visible()
    assert not violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
