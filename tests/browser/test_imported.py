"""Runs of other programs in the browser: groups, episodes, and the HTML that their models wrote."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener, aside
from tests.importing.imported import DATA, lines, run_import
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

HTML = "<img src=x onerror=\"document.title='taken'\"><b>bold</b>"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    root = tmp_path_factory.mktemp("runs")
    files = tmp_path_factory.mktemp("files")
    row = {"step": 1, "prompt": f"Say {HTML}", "advantage": 0.0}
    hostile = lines(
        files / "completions.jsonl",
        *({**row, "completion": f"{HTML} {place}", "reward": place} for place in range(2)),
        {**row, "prompt": "No reward", "completion": "nothing"},
    )
    for path, name in (
        (DATA / "verifiers_traces.jsonl", "sums"),
        (DATA / "inspect.eval", "log"),
        (hostile, "html"),
    ):
        assert aside(run_import, path, into=root / name).exit_code == 0
    with serve(test_settings(tmp_path_factory.mktemp("data"), runs_dir=root)) as serving:
        yield serving


def test_an_imported_run_is_listed_with_its_groups_and_opens_to_be_read(
    serving: Serving, open_page: Opener
) -> None:
    page = open_page(f"{serving.base_url}/rollouts")
    page.locator(".runcard[data-key=sums]").click()
    expect(page.locator("#figures")).to_contain_text("4 episodes finished")
    expect(page.locator(".group .badge").first).to_contain_text("3 of 4")
    expect(page.locator(".cell[data-standing=failed]")).to_have_count(1)
    page.locator(".cell[data-standing=over]").first.click()
    expect(page.locator("#state")).to_have_text("Imported")
    expect(page.get_by_text("It is 4.").first).to_be_visible()


def test_siblings_of_an_imported_group_part_where_they_part(serving: Serving, open_page: Opener) -> None:
    groups = serving.client.get("/api/rollouts/sums").json()["run"]["groups"]
    (name,) = [one for one in groups if "g0" in one]
    page = open_page(f"{serving.base_url}/group/{quote(name, safe='')}?run=sums", viewport=PHONE)
    expect(page.locator(".sibling")).to_have_count(4)
    expect(page.locator("#part")).to_contain_text("At decision 1 of 2")
    expect(page.locator(".sibling").first).to_contain_text("add")


def test_html_of_a_model_is_text_and_an_absent_reward_is_none(serving: Serving, open_page: Opener) -> None:
    page = open_page(f"{serving.base_url}/rollouts/html")
    expect(page.locator(".cell")).to_have_count(3)
    absent = page.locator(".cell[data-standing=over]", has_text="×")
    expect(absent).to_have_count(1)
    page.locator(".cell", has_text="1").first.click()
    expect(page.get_by_text("<b>bold</b>").first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0 and page.title() != "taken"
    group = page.request.get(f"{serving.base_url}/api/rollouts/html").json()["run"]["groups"]
    name = next(one for one in group if one)
    siblings = open_page(f"{serving.base_url}/group/{name}?run=html")
    expect(siblings.locator(".sibling")).to_have_count(2)
    expect(siblings.get_by_text("<img src=x").first).to_be_visible()
    assert siblings.locator("img[src=x]").count() == 0
