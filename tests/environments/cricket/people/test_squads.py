"""Fictional squads: lawful, repeatable, named by the rule, and as different as real players are."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.environments.cricket.people import MEN, SURNAMES, TEAMS, WOMEN, draw_fixture
from tests.hash_seeds import printed


@given(st.integers(-(2**63), 2**63))
def test_any_seed_draws_a_side_that_can_play(seed: int) -> None:
    """Eleven with distinct names, a keeper who does not bowl, six or seven who do, both kinds."""
    squad, _ = draw_fixture(seed)
    assert [player.order for player in squad.players] == list(range(1, 12))
    assert len({player.surname for player in squad.players}) == 11
    assert squad.keeper.bowls is None
    assert 6 <= len(squad.bowlers) <= 7
    assert {player.bowls for player in squad.bowlers} == {"pace", "spin"}
    assert all(player.bat_runs > 0 and player.bat_out > 0 for player in squad.players)


def test_a_seed_draws_the_same_squad_in_another_process() -> None:
    code = "from spectator.environments.cricket.people import draw_fixture; print(draw_fixture(7))"
    assert printed(code, 4).strip() == str(draw_fixture(7))


def test_two_sides_of_a_fixture_share_no_name() -> None:
    for seed in range(200):
        home, away = draw_fixture(seed)
        assert home.name != away.name
        assert not {player.surname for player in home.players} & {player.surname for player in away.players}


def test_skill_spreads_as_between_real_players() -> None:
    """Over many squads the ratios centre on 1 with the latent sd of player_skill.json."""
    squads = [squad for seed in range(400) for squad in draw_fixture(seed)]
    top = [squad.players[place].bat_runs for squad in squads for place in range(3)]
    out = [squad.players[place].bat_out for squad in squads for place in range(3)]
    pace = [player.bowl_runs for squad in squads for player in squad.bowlers if player.bowls == "pace"]
    assert statistics.mean(top) == pytest.approx(1.0, abs=0.01)
    assert statistics.stdev(top) == pytest.approx(0.098, abs=0.008)
    assert statistics.stdev(out) == pytest.approx(0.251, abs=0.02)
    assert statistics.stdev(pace) == pytest.approx(0.064, abs=0.005)
    left = [squad.players[1].bats == "left" for squad in squads]
    assert statistics.mean(left) == pytest.approx(0.395, abs=0.06)


def test_our_names_differ() -> None:
    for names in (MEN, SURNAMES, TEAMS):
        assert len(set(names)) == len(names)


def test_women_have_womens_names_and_the_same_skills() -> None:
    for men, women in zip(draw_fixture(7), draw_fixture(7, women=True), strict=True):
        for one, other in zip(men.players, women.players, strict=True):
            assert one.name.split()[0] in MEN and other.name.split()[0] in WOMEN
            assert replace(other, name=one.name) == one
    assert not set(MEN) & set(WOMEN)
