"""Fictional squads: lawful, repeatable, named by the rule, and as different as real players are."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectator.environments.cricket.people import GIVEN, SURNAMES, TEAMS, Squad, draw_fixture, name_fault
from tests.hash_seeds import printed


@given(st.integers(-(2**63), 2**63))
def test_any_seed_draws_a_side_that_can_play(seed: int) -> None:
    """Eleven with distinct names, a keeper who does not bowl, six or seven who do, both kinds."""
    squad, _ = draw_fixture(seed)
    assert [player.order for player in squad.players] == list(range(1, 12))
    assert len({player.surname for player in squad.players}) == 11
    assert all(name_fault(player.name) is None for player in squad.players)
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


def test_a_given_name_is_kept_and_not_drawn_again() -> None:
    for seed in range(100):
        home, away = draw_fixture(seed, (TEAMS[0], None))
        assert home.name == TEAMS[0] != away.name


def test_a_name_that_breaks_the_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="must start with a letter"):
        draw_fixture(1, ("<script>", None))


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


def test_our_own_names_obey_the_rule_and_differ() -> None:
    for names in (GIVEN, SURNAMES, TEAMS):
        assert len(set(names)) == len(names)
        assert [name for name in names if name_fault(name)] == []


@pytest.mark.parametrize("name", ["O'Darrow", "Zoë Müller-Ito", "Новак", "पंत", "St. Ives", "A’Court"])
def test_names_of_any_script_are_valid(name: str) -> None:
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "x" * 41,
        " Ada",
        "Ada ",
        "Ada  B",
        "4da",
        "Ada4",
        "A\nB",
        "Ada\u202eB",
        "A<b>",
        "A\u200bB",
        "é",
        None,
        7,
        "A" + "\u0301",
    ],
)
def test_names_that_could_not_be_printed_or_spoken_are_not(name: object) -> None:
    assert name_fault(name)


def test_a_squad_needs_eleven() -> None:
    squad, _ = draw_fixture(1)
    with pytest.raises(ValueError, match="11"):
        Squad("Ten", squad.players[:10])
    with pytest.raises(ValueError, match="distinct"):
        Squad("Twins", (*squad.players[:10], squad.players[0]))
    with pytest.raises(KeyError):
        squad.player("nobody")
