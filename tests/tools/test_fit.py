"""The fit: it reads every count, recovers what it is given, and its file is the one that ships."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from spectator.environments.cricket.ball.situation import LENGTHS, SECTORS
from spectator.environments.cricket.ball.tables import (
    MODEL_FILE,
    PROFILES,
    load_tables,
    rate_place,
    tables_of,
)
from spectator.environments.cricket.forecast.arrays import build_model_arrays
from tools.cricket_model import fit
from tools.cricket_model.fitting import assembly, counts, deliveries, dismissals, people, raking, situations
from tools.cricket_model.fitting.counts import DATA
from tools.cricket_model.fitting.population import draw_population
from tools.cricket_model.fitting.raking import Spread, Tallies
from tools.cricket_model.fitting.regression import fit_log_rates
from tools.cricket_model.fitting.selection import BowlerSelection

AVERAGE = BowlerSelection(np.zeros(20), np.zeros(20), np.full(20, 0.38))


def test_poisson_regression_recovers_known_rates() -> None:
    rng = np.random.default_rng(1)
    design = np.column_stack([np.ones(400), rng.standard_normal(400), rng.integers(0, 2, 400)])
    truth = np.array([-2.0, 0.3, -0.5])
    exposure = rng.integers(200, 2000, 400).astype(float)
    drawn = rng.poisson(exposure * np.exp(design @ truth)).astype(float)
    fitted = fit_log_rates(design, drawn, exposure, np.diag([1e-6] * 3))
    assert fitted == pytest.approx(truth, abs=0.02)


def test_the_penalty_shrinks_what_little_data_says() -> None:
    """One six in ten balls of a rare cell does not make a tenth."""
    design = np.array([[1.0, 0.0], [1.0, 1.0]])
    fitted = fit_log_rates(design, np.array([500.0, 1.0]), np.array([10_000.0, 10.0]), np.diag([1e-6, 25.0]))
    assert np.exp(fitted.sum()) < 0.055


def test_every_delivery_of_the_tables_is_counted() -> None:
    """158,534 deliveries, in the batter's and the position's tables alike; the bowler's misses the unmatched
    0.2 %."""
    assert people.order_counts().sum() == 158_534
    assert people.batter_counts().sum() == 158_534
    assert 0.995 * 158_534 < people.bowler_counts().sum() <= 158_534


@pytest.mark.parametrize("chase", [False, True])
def test_the_surface_keeps_the_tables_margins(chase: bool) -> None:
    """By over, expected runs of the smooth surface are within 4 % of the raw counts, and cells are shares."""
    at = situations.fit_surface(chase)
    runs = np.array([0, 1, 2, 3, 4, 6, 0, 0.4, 1.15, 2.2, 1.3])
    for over in range(20):
        rows = [
            row
            for row in counts.read_rows("ball_outcomes_by_state.csv")
            if int(row["over"]) == over and (row["innings"] == "2") == chase
        ]
        real = smooth = 0.0
        for row in rows:
            cell = counts.counts_of(row)
            rate = counts.RATE_BANDS.index(row["required_rate"]) if chase else None
            shares = np.exp(at(over, counts.WICKET_BANDS.index(row["wickets_lost"]), rate))
            assert shares.sum() == pytest.approx(1.0)
            real += float(cell @ runs)
            smooth += float(cell.sum() * (shares @ runs))
        assert smooth == pytest.approx(real, rel=0.04), over


def test_raking_makes_simulated_margins_the_tables() -> None:
    """Starting from surfaces alone, a few rounds bring runs per over of every phase within 2 % of the
    tables."""
    parameters, first, chase = raking.starting_point()
    tables = tables_of(assembly.blank_content(chase) | assembly.parameter_content(parameters), "men")
    compiled, rng, spread = build_model_arrays(tables), np.random.default_rng(3), Spread(0.1, 0.1)
    raked = raking.rake(parameters, (first, chase), compiled, spread, rng, AVERAGE, rounds=8, matches=1500)
    tallies = Tallies.empty()
    model = raking.with_parameters(compiled, raked, AVERAGE)
    ends = raking.simulate(model, draw_population(4000, rng, AVERAGE), spread, rng, tallies)
    for innings, counted in ((1, tallies.first.sum(axis=1)), (2, tallies.chase.sum(axis=(1, 2)))):
        for phase, (a, b) in enumerate(((0, 6), (6, 15), (15, 20))):
            row = next(
                r
                for r in counts.read_rows("ball_outcomes_by_phase.csv")
                if (r["cohort"], r["innings"], r["phase"]) == ("all", str(innings), counts.PHASES[phase])
            )
            real, seen = counts.counts_of(row), counted[a:b].sum(axis=0)
            for name, category in (("dots", 0), ("ones", 1), ("fours", 4), ("sixes", 5), ("wickets", 6)):
                share = seen[category] / seen.sum()
                assert share == pytest.approx(real[category] / real.sum(), rel=0.05), (innings, phase, name)
    assert float(ends[0].runs.mean()) == pytest.approx(170.0, abs=4.0)
    assert float(ends[1].runs.mean()) == pytest.approx(155.1, abs=4.0)


def test_the_frontier_is_the_tables_own() -> None:
    """From 6-8 to 13 and more an over sixes about double, dots fall, wickets rise by a third to four
    fifths."""
    _, _, chase = raking.starting_point()
    direction = assembly.intent_direction(chase)
    assert direction.shape == (3, 7)
    assert (direction[:, 0] < -0.1).all() and (direction[:, 4] > 0.5).all()
    assert ((direction[:, 5] > 0.25) & (direction[:, 5] < 0.85)).all()


def test_effects_of_lengths_and_lines_average_to_one() -> None:
    """Over the shares, for every lever, so that unplanned bowling is the data's."""
    share, effect = deliveries.length_effects()
    assert share.sum(axis=-1) == pytest.approx(np.ones((3, 2)))
    assert (share[..., None] * effect).sum(axis=2) == pytest.approx(np.ones((3, 2, 7)))
    share, effect = deliveries.line_effects()
    assert share.sum(axis=-1) == pytest.approx(np.ones(2))
    assert (share[..., None] * effect).sum(axis=1) == pytest.approx(np.ones((2, 7)))
    assert deliveries.zone_shares().sum(axis=-1) == pytest.approx(np.ones((3, 2, 6)))


def test_lengths_and_directions_are_those_of_the_game() -> None:
    """Death balls are fuller, spin pitches full to good, sixes go over midwicket, fours off pace go finer."""
    length, _ = deliveries.length_effects()
    fuller = length[..., : LENGTHS.index("good")].sum(axis=-1)
    assert (fuller[2] > fuller[1]).all() and (fuller[1] >= fuller[0]).all()
    assert (length[:, 1, 2:4].sum(axis=-1) > length[:, 0, 2:4].sum(axis=-1)).all()
    fours, sixes = (np.moveaxis(deliveries.zone_shares(), 2, 0)[hit] for hit in (4, 5))
    order = np.argsort(-sixes, axis=-1)[..., :3]
    assert (order == [SECTORS.index(name) for name in ("midwicket", "long-on", "long-off")]).all()
    fine = fours[..., [SECTORS.index("fine leg"), SECTORS.index("third")]].sum(axis=-1)
    assert (fine[:, 0] > fine[:, 1]).all()


def test_the_shipped_lengths_lines_and_directions_are_the_assumed_ones() -> None:
    content = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    for part, effects in (("lengths", deliveries.length_effects), ("lines", deliveries.line_effects)):
        share, effect = effects()
        assert np.array(content[part]["share"]) == pytest.approx(share, abs=1e-4)
        assert np.array(content[part]["effect"]) == pytest.approx(effect, abs=1e-4)
    assert np.array(content["zones"]) == pytest.approx(deliveries.zone_shares(), abs=1e-4)


def test_every_table_is_read_or_named_as_a_source() -> None:
    folders = (MODEL_FILE.parent.parent, DATA.parent)
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    tables = [
        path.name
        for folder in folders
        for path in (folder / "data").iterdir()
        if path.suffix in (".csv", ".json")
    ]
    assert tables
    assert [name for name in tables if not re.search(rf"\b{re.escape(name)}\b", code)] == []


def test_ways_of_getting_out_differ_by_style() -> None:
    shares = np.array(dismissals.kind_shares())
    stumped = dismissals.KINDS.index("stumped")
    assert shares.sum(axis=-1) == pytest.approx(np.ones((3, 6)), abs=1e-4)
    assert shares[1, 2:, stumped].min() > 0.03 > 0.01 > shares[1, :2, stumped].max()


def test_the_shipped_file_is_whole_and_small() -> None:
    content = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    assert "Cricsheet" in content["note"] and "ODC Attribution License" in content["note"]
    assert MODEL_FILE.stat().st_size < 150_000
    assert set(content["profiles"]) == set(PROFILES)
    for profile in PROFILES:
        tables = load_tables(profile)
        assert len(tables.first) == 20 and len(tables.first[0]) == 10 and len(tables.chase[0][0]) == 17
        totals = tables.levels["totals"]
        assert totals == sorted(totals)


def test_profiles_have_their_own_totals() -> None:
    """Mean first innings: men 170, women 159, associates 143 (innings_summary.json, other_profiles.json)."""
    totals = {profile: load_tables(profile).levels["totals"][4] for profile in PROFILES}
    assert totals["men"] == pytest.approx(170.0, abs=2.5)
    assert totals["women"] == pytest.approx(159.2, abs=3.0)
    assert totals["associates"] == pytest.approx(143.1, abs=3.0)


def test_required_rates_find_their_place() -> None:
    places = [rate_place(rate) for rate in (0.0, 5.0, 6.0, 7.0, 9.0, 11.4, 16.0, 36.0, 600.0)]
    assert places == [0, 0, 2, 4, 8, 12, 16, 16, 16]


def test_the_command_rejects_an_unknown_option() -> None:
    with pytest.raises(SystemExit):
        fit.main(["--bogus"])
