"""A real match on the pages: its pack in the start form, its line and its overs beside those played here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from spectator.environments.cricket.imported_matches import (
    Imported,
    import_matches,
    price_overs,
    save_matches,
)
from spectator.environments.cricket.real_match_record import ATTRIBUTION
from tests.browser.conftest import Opener
from tests.environments.cricket.real.cricsheet_files import cricsheet_of, simulated, written
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[tuple[Serving, Imported]]:
    """A server with one imported match of two overs whose overs are priced."""
    (one,) = import_matches([written(tmp_path / "files", "one", cricsheet_of(simulated(3, 2)))]).kept
    one.record = one.record.model_copy(
        update={"prices": list(price_overs(one.record, one.profile, one.level))}
    )
    save_matches(tmp_path / "data", [one])
    with serve(test_settings(tmp_path / "data", environment="cricket")) as serving:
        yield serving, one


def test_the_form_starts_a_real_match_and_the_page_shows_both_lines(
    imported: tuple[Serving, Imported], open_page: Opener
) -> None:
    serving, one = imported
    page = open_page(f"{serving.base_url}/")
    page.get_by_label("Evaluation pack").select_option("real-one")
    page.get_by_text("More choices").click()
    page.get_by_label("real from", exact=True).fill("1:0.3")
    page.get_by_label("Pace").select_option("max")
    page.get_by_role("button", name="Start the match").click()
    card = page.get_by_role("region", name="The real match")
    expect(card).to_contain_text(f"Real result: {one.record.result}. Played on from 1:0.3")
    expect(card).to_contain_text(ATTRIBUTION)
    expect(card.get_by_role("row")).not_to_have_count(0)
    expect(card).to_contain_text(one.record.prices[0].bowler)
    page.get_by_role("button", name="Worm").click()
    expect(page.locator(".chart__line--real")).to_have_count(len(one.record.innings))


def test_a_start_answers_with_the_place_of_what_is_wrong(imported: tuple[Serving, Imported]) -> None:
    serving, _ = imported
    body = {"environment": "cricket", "eval_pack_id": "real-one", "options": {"real_from": "2:7.0"}}
    answer = serving.client.post("/custom/start_episode", json=body)
    assert answer.status_code == 422
    assert "innings 2 has only" in answer.text and "options.real_from" in answer.text
    listed = serving.client.get("/custom/catalog").json()["environments"]
    packs = {pack["name"]: pack for world in listed for pack in world["packs"]}
    assert "real_match" not in packs["real-one"]["options"] and packs["real-one"]["options"]["max_overs"] == 2
