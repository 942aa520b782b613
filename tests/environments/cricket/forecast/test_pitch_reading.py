"""What the balls say of the day: unbiased, as sure as it claims, and worth having in the forecast."""

from __future__ import annotations

import json
import math
from statistics import fmean, stdev

import numpy as np
import pytest

from spectator.environments.cricket.forecast.monte_carlo import forecast
from spectator.environments.cricket.match.engine import Match, load_model
from spectator.environments.cricket.match.forecasts import (
    Expected,
    PitchReading,
    forecast_data,
    forecast_state,
)
from spectator.environments.cricket.simulation import open_match, play_out

MATCHES = 90


def read(match: Match, innings: int) -> PitchReading:
    """The reading at the end of an innings of ``match``, which is played so far."""
    reading = PitchReading(match.model)
    for played in play_out(match):
        reading.observe(played.innings, played.delivered)
        if match.innings[innings - 1 :] and match.innings[innings - 1].closed:
            break
    return reading


@pytest.mark.parametrize(("overs", "level"), [(20, "all"), (20, 210.0), (5, "all")])
def test_the_reading_is_right_and_as_sure_as_it_says(overs: int, level: str | float) -> None:
    """Of the effect of both innings, over the match: right on average, by its own standard deviation, and
    nearer than knowing nothing."""
    model = load_model("men", level)
    first: list[tuple[float, float]] = []
    second: list[tuple[float, float]] = []
    for seed in range(MATCHES):
        match = open_match(overs, 50_000 + seed, model=model)
        reading = read(match, 2)
        for innings, found in ((1, first), (2, second)):
            expected = reading.expected(innings)
            truth = match.effects.of(innings) - model.level
            miss = truth - expected.mean
            found.append((miss / expected.sd, truth**2 - miss**2))
            assert expected.sd < PitchReading(model).expected(innings).sd
    for found in (first, second):
        z, gained = zip(*found, strict=True)
        assert abs(fmean(z)) < 3.5 / math.sqrt(MATCHES)
        assert abs(stdev(z) - 1.0) < 3.5 / math.sqrt(2 * MATCHES)
        assert fmean(gained) > 0.0


def test_before_any_ball_nothing_is_known() -> None:
    model = load_model("men", "all")
    spread = math.hypot(*model.tables.effect_sd)
    reading = PitchReading(model)
    assert reading.expected(1) == Expected(0.0, spread)
    assert reading.expected(2).mean == 0.0
    assert reading.expected(2).sd == pytest.approx(spread)


def test_a_first_innings_says_less_of_the_next_than_of_itself() -> None:
    reading = read(open_match(20, 3), 1)
    itself, following = reading.expected(1), reading.expected(2)
    assert 0.0 < abs(following.mean) < abs(itself.mean)
    assert itself.sd < following.sd < math.hypot(*reading_sd())


def reading_sd() -> tuple[float, float]:
    return load_model("men", "all").tables.effect_sd


def test_a_reading_goes_on_from_json_as_if_never_interrupted() -> None:
    match = open_match(5, 8)
    whole, copied = PitchReading(match.model), PitchReading(match.model)
    for played in play_out(match):
        whole.observe(played.innings, played.delivered)
        copied.observe(played.innings, played.delivered)
        dumped = json.loads(json.dumps(copied.dump()))
        copied = PitchReading(match.model)
        copied.load(dumped)
        assert [copied.expected(1), copied.expected(2)] == [whole.expected(1), whole.expected(2)]


def test_super_overs_say_nothing() -> None:
    match = next(one for one in map(tied, range(400)) if one is not None)
    reading = PitchReading(match.model)
    before = reading.dump()
    for played in play_out(match):
        reading.observe(played.innings, played.delivered)
    assert match.number > 2 and reading.dump() == before


def tied(seed: int) -> Match | None:
    """The match of a seed at its super over; ``None`` when there is none."""
    match = open_match(1, seed)
    for _ in play_out(match):
        if match.number > 2:
            return match
    return None


def test_a_big_total_on_a_good_day_is_easier_to_chase_than_it_looks() -> None:
    """The highest and the lowest of many first innings: the forecast of the chase reads the day."""
    matches = [(match, read(match, 1)) for match in (open_match(20, 60_000 + seed) for seed in range(40))]
    matches.sort(key=lambda pair: pair[1].expected(2).mean)
    for (match, reading), higher in ((matches[0], False), (matches[-1], True)):
        match.close_innings()
        plain, read_in = (forecast_data(match, 3000, 1, day) for day in (None, reading))
        assert plain is not None and read_in is not None
        chance = match.batting_side
        assert (read_in[chance] > plain[chance] + 0.01) is higher
        assert (read_in[chance] < plain[chance] - 0.01) is not higher


def test_what_is_known_of_one_innings_is_half_known_of_the_next() -> None:
    """A first innings on a good day makes more than the reply, for they do not share all of it; the level
    both share."""
    state = forecast_state(open_match(20, 2))
    assert state is not None
    usual = forecast(state._replace(effect_sd=0.0), 3000, np.random.default_rng(1))
    good = forecast(state._replace(effect_mean=0.4, effect_sd=0.0), 3000, np.random.default_rng(1))
    assert good.total > usual.total + 25
    assert good.p_win > usual.p_win + 0.06
