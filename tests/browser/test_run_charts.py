"""The charts of a run: the API's values, read by pointer and keyboard, alone and compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from tests.browser.conftest import COLOURS, PHONE, RULES, WIDE, Opener, aside, violations
from tests.following.trained_run import play_training
from tests.rollouts.exported_run import play_run
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

SIZES = {"wide": WIDE, "phone": PHONE}
CHARTS = [
    "Mean reward", "Own share of decisions", "Refused answers per decision", "Episodes cut short",
    "Reply tokens per episode", "Entropy", "Rewards", "Lengths in turns", "Lengths in reply tokens",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two training runs with versions, one without, and a fleet's run of a model that is at times silent."""
    root: Path = tmp_path_factory.mktemp("runs")
    aside(play_training, root / "first", versions=5)
    aside(play_training, root / "second", versions=3, luck=2)
    aside(play_training, root / "unversioned", versions=2, versioned=False)
    aside(play_run, root / "fleet", model={"temperature": 0.7}, on_invalid="penalize", invalid_retries=0)
    return root


@pytest.fixture(scope="module")
def runs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The server that watches them."""
    with serve(test_settings(tmp_path_factory.mktemp("data"), runs_dir=root, max_episodes=4)) as serving:
        yield serving


def series(serving: Serving, run: str, axis: str = "weight_version") -> list[dict[str, Any]]:
    """The points that the API gives."""
    stated: dict[str, Any] = serving.client.get(f"/api/rollouts/{run}/series").json()
    return list(stated["series"][axis]["points"].values())


def chart(page: Page, title: str) -> Locator:
    """The card of a chart."""
    return page.locator(".plotted").filter(has=page.get_by_role("heading", name=title, exact=True))


def figure(value: float) -> str:
    """A figure as the pages write it."""
    return f"{round(value, 3):g}".replace("-", "\u2212")


def said(point: dict[str, Any]) -> str:
    """What the chart of rewards says of a point."""
    error = f" \u00b1 {figure(point['error'])}" if "error" in point else ""
    share = f"{round(100 * point['own_share'], 1):g} %"
    value = f"{figure(point['mean'])}{error} over {point['verdicts']} episodes, own share {share}"
    return f"version {point['last']}: {value}"


def test_every_value_of_the_api_is_on_the_page(runs: Serving, open_page: Opener) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first")
    points = series(runs, "first")
    whole = runs.client.get("/api/rollouts/first").json()["run"]
    assert list(whole["series"]["weight_version"]["points"].values()) == points
    rows = chart(page, "Mean reward").locator("tbody tr")
    expect(rows).to_have_count(len(points))
    for row, point in zip(rows.all(), points, strict=True):
        cells = [f"version {point['last']}", figure(point["mean"]), figure(point["error"])]
        assert [row.locator("th").inner_text(), *row.locator("td").all_inner_texts()[:3]] == [
            *cells, str(point["verdicts"]),
        ]  # fmt: skip
    written = chart(page, "Reply tokens per episode").locator("tbody tr")
    assert [row.locator("td").nth(4).inner_text() for row in written.all()] == [
        str(point["tokens_out"]) for point in points
    ]
    entropies = chart(page, "Entropy").locator("tbody tr td:nth-of-type(1)")
    assert entropies.all_inner_texts() == [figure(point["entropy"]) for point in points]
    expect(page.locator("#figures")).to_contain_text(
        f"{figure(whole['mean'])} \u00b1 {figure(whole['error'])}"
    )
    expect(page.locator("#figures")).to_contain_text(f"mean reward over {whole['verdicts']} episodes")
    expect(page.locator("#missing")).to_contain_text("without a weight version")


@pytest.mark.parametrize("size", SIZES)
def test_each_chart_is_read_by_keyboard_and_has_axes_with_units(
    runs: Serving, open_page: Opener, size: str
) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first", viewport=SIZES[size])
    for title in CHARTS:
        control = page.get_by_role("slider", name=title, exact=True)
        read = chart(page, title).locator(".plot__read")
        units = chart(page, title).locator(".plot__unit")
        expect(units).to_have_count(2)
        assert len([one for one in units.all_text_contents() if one]) == 2, (
            f"{title} has an axis without unit"
        )
        assert chart(page, title).locator(".plot__grid text").count() >= 2
        assert chart(page, title).locator(".plot__across text").count() >= 2
        control.focus()
        page.keyboard.press("Home")
        first = read.inner_text()
        expect(control).to_have_attribute("aria-valuetext", first)
        page.keyboard.press("ArrowRight")
        expect(read).not_to_have_text(first)
        expect(control).to_have_attribute("aria-valuenow", "2")
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        most = control.get_attribute("aria-valuemax")
        expect(control).to_have_attribute("aria-valuenow", str(most))
    points = series(runs, "first")
    page.get_by_role("slider", name="Mean reward").focus()
    page.keyboard.press("Home")
    expect(chart(page, "Mean reward").locator(".plot__read")).to_have_text(said(points[0]))
    page.keyboard.press("Tab")
    expect(chart(page, "Mean reward").locator(".plot__read")).to_have_text(said(points[-1]))


def test_a_pointer_reads_the_nearest_point(runs: Serving, open_page: Opener) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first")
    read = chart(page, "Mean reward").locator(".plot__read")
    points = series(runs, "first")
    expect(read).to_have_text(said(points[-1]))
    dots = chart(page, "Mean reward").locator(".plot .plot__line circle")
    expect(dots).to_have_count(len(points))
    frame = page.get_by_role("slider", name="Mean reward").bounding_box()
    assert frame is not None
    for place in (0, 2):
        box = dots.nth(place).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 8, frame["y"] + 60)
        expect(read).to_have_text(said(points[place]))
        expect(chart(page, "Mean reward").locator(".plot circle.plot__at")).to_have_count(1)
    page.mouse.move(2, 2)
    expect(read).to_have_text(said(points[-1]))


def test_two_runs_are_compared_on_the_same_axes(runs: Serving, open_page: Opener) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first")
    picker = page.get_by_label("Compare with")
    expect(picker.locator("option", has_text="fleet")).to_have_count(1)
    expect(picker.locator("option", has_text="first")).to_have_count(0)
    picker.select_option("second")
    card = chart(page, "Mean reward")
    expect(card.locator(".plot__legend")).to_have_text("firstsecond")
    assert page.url.endswith("?with=second")
    first, second = series(runs, "first"), series(runs, "second")
    expect(card.locator("tbody tr")).to_have_count(len(first) + len(second))
    expect(card.locator(".plot .plot__line--1 circle")).to_have_count(len(first))
    expect(card.locator(".plot .plot__line--2 rect")).to_have_count(len(second))
    dash = card.locator("svg.plot .plot__line--2 path:not(.plot__error)").first
    assert dash.evaluate("line => getComputedStyle(line).strokeDasharray") != "none"
    page.get_by_role("slider", name="Mean reward").focus()
    page.keyboard.press("Home")
    expect(card.locator(".plot__read span").nth(0)).to_have_text(f"first {said(first[0])}")
    expect(card.locator(".plot__read span").nth(1)).to_have_text(f"second {said(second[0])}")
    page.reload()
    expect(card.locator(".plot__legend")).to_have_text("firstsecond")
    expect(card.locator(".plot__legend .plot__line--1 circle")).to_have_count(1)
    expect(card.locator(".plot__legend .plot__line--2 rect")).to_have_count(1)
    expect(page.get_by_label("Compare with")).to_have_value("second")
    expect(page.locator("#settings-said")).to_have_text("the same as second")
    page.get_by_label("Compare with").select_option("fleet")
    expect(page.locator("#settings-said")).to_contain_text("differ from fleet")
    page.locator("#settings summary").click()
    differs = page.locator("#set tr[data-differs]", has_text="sampling: temperature")
    expect(differs).to_contain_text("not stated")
    expect(differs).to_contain_text("0.7")
    expect(differs).to_contain_text("differs")
    page.get_by_label("Compare with").select_option("unversioned")
    expect(page.locator("#missing")).to_contain_text("unversioned has no weight versions")
    page.get_by_label("Axis of the charts").select_option("episodes")
    expect(card.locator(".plot__legend")).to_have_text("firstunversioned")
    page.get_by_label("Compare with").select_option("")
    expect(card.locator(".plot__legend")).to_be_hidden()


def test_charts_follow_a_run_while_it_is_trained(root: Path, runs: Serving, open_page: Opener) -> None:
    with RecordedRun(root / "live", group_size=2, model="Tiny") as run:
        page = open_page("about:blank")
        for version in (1, 2, 3):
            run.weight_version = f"w{version}"
            for _ in range(2):
                episode = TextEpisode("counting", {"turns": 1}, run=run)
                episode.reset(seed=version)
                episode.answer('{"tool": "say", "arguments": {"text": "ACTION: 1"}}')
            if version == 1:
                page.goto(f"{runs.base_url}/rollouts/live?by=weight_version")
            rows = chart(page, "Own share of decisions").locator("tbody tr")
            expect(rows).to_have_count(version)
            read = chart(page, "Mean reward").locator(".plot__read")
            expect(read).to_contain_text("1 \u00b1 0 over 2 episodes, own share 100 %")
            if version == 2:
                page.get_by_role("slider", name="Mean reward").focus()
                page.keyboard.press("Home")
        expect(read).to_contain_text("version w1")


def test_a_run_to_compare_with_that_is_gone_is_said(runs: Serving, open_page: Opener) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first?with=nothing", forgive=("404",))
    expect(page.locator("#missing")).to_contain_text("there is no run nothing here")
    expect(chart(page, "Mean reward").locator(".plot__read")).to_have_text(said(series(runs, "first")[-1]))


def test_without_versions_rewards_are_shown_by_finished_episodes(runs: Serving, open_page: Opener) -> None:
    page = open_page(f"{runs.base_url}/rollouts/unversioned")
    expect(page.get_by_label("Axis of the charts")).to_have_value("episodes")
    expect(page.locator("#missing")).to_contain_text("No weight versions are recorded.")
    last = series(runs, "unversioned", "episodes")[-1]
    read = chart(page, "Mean reward").locator(".plot__read")
    expect(read).to_contain_text(f"{last['last']}: {figure(last['mean'])}")
    expect(page.locator("#axes option[value=weight_version]")).to_be_disabled()


def test_the_words_of_a_sibling_are_one_click_away(runs: Serving, open_page: Opener) -> None:
    groups = runs.client.get("/api/rollouts/first").json()["run"]["groups"]
    name = next(name for name, group in groups.items() if name and len(group["members"]) > 1)
    page = open_page(f"{runs.base_url}/group/{name}?run=first")
    page.locator("#sibling-2").get_by_role("button", name="Prompt and reply").click()
    dialog = page.get_by_role("dialog", name="Prompt and reply")
    expect(dialog).to_contain_text("Sibling 2, decision")
    expect(dialog).to_contain_text("The reply as received")
    expect(dialog).to_contain_text("ACTION:")
    expect(dialog.get_by_role("heading", name="user").first).to_be_visible()


def test_a_group_states_its_configuration_tokens_and_cost(runs: Serving, open_page: Opener) -> None:
    shown = runs.client.get("/api/groups/g-000000?run=fleet").json()
    assert shown["tokens_out"] > 0 and shown["uncounted"] == 0
    page = open_page(f"{runs.base_url}/group/g-000000?run=fleet")
    settings = "m-1 · temperature 0.7 · max tokens 1024 · turns 4 · invalid answers: penalize"
    expect(page.locator("#set")).to_have_text(settings)
    expect(page.locator("#figures")).to_contain_text(f"{shown['tokens_out']} reply tokens")
    expect(page.locator("#figures")).to_contain_text(
        f"{figure(shown['mean'])} \u00b1 {figure(shown['error'])}"
    )


def test_the_words_of_a_model_that_never_acted_are_one_click_away(runs: Serving, open_page: Opener) -> None:
    whole = runs.client.get("/api/rollouts/fleet").json()["run"]["groups"]
    name = next(
        name for name, group in whole.items() if any("penalised" in one for one in group["members"].values())
    )
    page = open_page(f"{runs.base_url}/group/{name}?run=fleet")
    expect(page.locator("#where")).to_contain_text("Decision")
    key = 1 + [("penalised" in one) for one in whole[name]["members"].values()].index(True)
    page.keyboard.press("End")
    page.locator(f"#sibling-{key}").get_by_role("button", name="Prompt and reply").click()
    expect(page.get_by_role("dialog", name="Prompt and reply")).to_contain_text("I would rather not say.")


def test_a_sibling_that_ended_early_shows_its_last_words(runs: Serving, open_page: Opener) -> None:
    groups = runs.client.get("/api/rollouts/first").json()["run"]["groups"]
    name, key = next(
        (name, 1 + place)
        for name, group in groups.items()
        for place, one in enumerate(group["members"].values())
        if name and one["standing"] == "cut" and 0 < one["turns"] < 3 and "penalised" not in one
    )
    page = open_page(f"{runs.base_url}/group/{name}?run=first")
    expect(page.locator("#where")).to_contain_text("Decision")
    page.keyboard.press("End")
    page.locator(f"#sibling-{key}").get_by_role("button", name="Prompt and reply").click()
    dialog = page.get_by_role("dialog", name="Prompt and reply")
    expect(dialog).to_contain_text("at its end")
    expect(dialog).to_contain_text("The reply as received")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_compared_run_is_clean_and_fits(runs: Serving, open_page: Opener, size: str, scheme: str) -> None:
    page = open_page(f"{runs.base_url}/rollouts/first?with=second", viewport=SIZES[size], color_scheme=scheme)
    expect(chart(page, "Mean reward").locator(".plot__legend")).to_be_visible()
    page.locator("#settings summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    for one in page.locator(".plotted").all():
        torn = one.evaluate(
            """card => [...card.querySelectorAll("svg.plot text")].filter((text) => {
              const [box, frame] = [text.getBoundingClientRect(), card.getBoundingClientRect()];
              return box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom;
            }).map((text) => text.textContent)"""
        )
        assert torn == []
    assert violations(page, rules=COLOURS if scheme == "light" else RULES) == []
