"""Simulates one innings in many futures at once, one ball in each per step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.grounds import KIND_OF_BOWLING
from spectator.environments.cricket.ball.situation import WICKET_FIT
from spectator.environments.cricket.ball.tables import (
    BYE,
    CATEGORIES,
    NO_BALL,
    RATE_PLACES,
    RUN_OUT,
    SET_LIMITS,
    STYLES,
    WICKET,
    WIDE,
    effect_scale,
)
from spectator.environments.cricket.forecast.arrays import (
    MAX_REQUIRED,
    BallsCallback,
    Bools,
    Floats,
    InningsArrays,
    InningsTotals,
    Ints,
    ModelArrays,
    SimulatedBalls,
    SkillArrays,
    people_on,
    rate_places,
    situation_weights,
)

_RUNS: Final = np.array([0, 1, 2, 3, 4, 6, 0, 0, 0, 0, 0], dtype=np.int64)
_RAN: Final = np.array([0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0], dtype=np.bool_)
_FIRST_SPIN: Final = STYLES.index("off")
_FACED_CAP: Final = 63
_BIN_OF_FACED: Final = np.searchsorted(np.array(SET_LIMITS), np.arange(_FACED_CAP + 1), side="left")
_COMPRESS_AT: Final = 0.12
"""Finished futures are removed from the arrays once they exceed this share."""


def play(
    model: ModelArrays,
    skills: SkillArrays,
    at: InningsArrays,
    rng: np.random.Generator,
    watch: BallsCallback | None = None,
    *,
    forced: NDArray[np.uint8] | None = None,
) -> InningsTotals:
    """Simulate an innings to its end in every future.

    Args:
        at: The state of the innings; its arrays are not changed.
        watch: Called once per step with the balls simulated.
        forced: Category of the first ball in every future; drawn by default.
    """
    return _BatchInnings(model, skills, at, rng, watch).play(forced)


class _BatchInnings:
    """One innings in progress in all futures."""

    _COLUMNS = (
        "ids", "balls", "wickets", "runs", "striker", "partner", "faced", "faced_partner", "next_in",
        "effect", "caution", "rhythm", "free_hit", "done",
    )  # fmt: skip

    def __init__(
        self,
        model: ModelArrays,
        skills: SkillArrays,
        at: InningsArrays,
        rng: np.random.Generator,
        watch: BallsCallback | None,
    ) -> None:
        self.model, self.skills, self.at, self.rng, self.watch = model, skills, at, rng, watch
        self.ids: Ints = np.arange(len(at.balls))
        self.steps = 0
        self._begin_step()
        self.balls, self.wickets, self.runs = at.balls.copy(), at.wickets.copy(), at.runs.copy()
        self.striker, self.partner = at.striker.copy(), at.partner.copy()
        self.faced, self.faced_partner = at.faced.copy(), at.faced_partner.copy()
        self.next_in = at.next_in.copy()
        self.effect: Floats = (at.effect * effect_scale(at.innings_balls)).astype(np.float32)
        self.caution: Floats = np.exp(np.float32(-model.wicket_share) * self.effect)
        self.rhythm: Floats = self._rhythms(self.ids)
        self.free_hit = at.free_hit.copy()
        self.done: Bools = np.zeros(len(at.balls), dtype=np.bool_)
        self.target = None if at.target is None else at.target.copy()
        nowhere = np.full(len(at.balls), -1)
        self.ends = InningsTotals(
            at.runs.copy(), at.wickets.copy(), at.balls.copy(), 0, nowhere, nowhere.copy()
        )
        self.unmarked = at.mark > 0
        self.rows: Floats = np.empty((len(at.balls), CATEGORIES), dtype=np.float32)
        self.others: Floats = np.empty_like(self.rows)
        self.columns: Floats = np.empty((CATEGORIES, len(at.balls)), dtype=np.float32)
        self.deliveries = 0
        self.finished = 0
        self.situations = situation_weights(
            model, at.innings_balls, at.powerplay_balls, at.target is not None
        )
        balls = np.arange(at.innings_balls + 1)
        self.over_of = balls // 6
        self.over_ends = balls % 6 == 0
        self.over_ends[-1] = True
        self.person_row_of_ball = self.situations.phase_of_ball * 11
        self.places = rate_places(at.innings_balls)
        self.people = people_on(model, at.boundaries) if at.boundaries else model.person

    def play(self, forced: NDArray[np.uint8] | None) -> InningsTotals:
        """Simulate balls until every future has ended."""
        self._finish(self._ended())
        self._step(forced)
        self._finish(self._ended())
        while self.finished < len(self.done):
            if self.finished > _COMPRESS_AT * len(self.done):
                self._compress()
            self._step(None)
            self._finish(self._ended())
        return replace(self.ends, deliveries=self.deliveries)

    def _begin_step(self) -> None:
        """Start the random numbers of the next ball, if shared with other simulations."""
        if self.at.common is not None:
            self.rng = np.random.Generator(np.random.SFC64([*self.at.common, self.steps]))
            self.steps += 1

    def _random(self, rows: Ints) -> Floats:
        """Return a number in [0, 1) for the future in each of these rows."""
        if self.at.common is None:
            return self.rng.random(rows.size, dtype=np.float32)
        n = len(self.at.balls)
        drawn: Floats = self.rng.random(n // self.at.sharing, dtype=np.float32)
        return drawn[self.ids[rows] // self.at.sharing]

    def _rhythms(self, rows: Ints) -> Floats:
        """Draw an over's own shift for these rows, distributed as in `rhythm`."""
        width = np.float32(self.model.rhythm_sd * math.sqrt(12.0))
        return (self._random(rows) - np.float32(0.5)) * width

    def _ended(self) -> Bools:
        ended = (self.wickets >= self.at.wickets_limit) | (self.balls >= self.at.innings_balls)
        if self.target is not None:
            ended |= self.runs >= self.target
        return ended

    def _finish(self, ended: Bools) -> None:
        """Record the futures that have just ended."""
        new = (ended & ~self.done).nonzero()[0]
        if new.size:
            ids = self.ids[new]
            self.ends.runs[ids] = self.runs[new]
            self.ends.wickets[ids] = self.wickets[new]
            self.ends.balls[ids] = self.balls[new]
            self.done[new] = True
            self.finished += new.size
        if self.unmarked:
            self._mark(ended)

    def _mark(self, ended: Bools) -> None:
        """Record the futures that have reached the mark."""
        runs = self.ends.marked_runs
        here = ((ended | (self.balls >= self.at.mark)) & (runs[self.ids] < 0)).nonzero()[0]
        ids = self.ids[here]
        runs[ids] = self.runs[here]
        self.ends.marked_wickets[ids] = self.wickets[here]
        self.unmarked = bool((runs < 0).any())

    def _compress(self) -> None:
        self.finished = 0
        keep = (~self.done).nonzero()[0]
        for name in self._COLUMNS:
            setattr(self, name, getattr(self, name)[keep])
        if self.target is not None:
            self.target = self.target[keep]

    def _step(self, forced: NDArray[np.uint8] | None) -> None:
        """Bowl one ball in every future that is still in the arrays."""
        self._begin_step()
        balls = np.minimum(self.balls, self.at.innings_balls - 1)
        wickets = np.minimum(self.wickets, 9)
        required = None if self.target is None else np.clip(self.target - self.runs, 0, MAX_REQUIRED)
        base = self.situations.row_of_ball[balls]
        if required is None:
            base += wickets
        else:
            base += wickets * RATE_PLACES
            base += self.places[self.at.innings_balls - balls, required]
        base[self.free_hit.nonzero()[0]] = len(self.situations.weights) - 1
        bowlers, overs = self.at.bowlers, self.over_of[balls]
        bowler = bowlers[overs] if bowlers.ndim == 1 else bowlers[overs, self.ids]
        person = self._person_rows(balls, bowler)
        category = self._draw(base, person, bowler, overs) if forced is None else forced
        runs, ran, valid, out = self._score(category)
        if self.watch is not None:
            live = (~self.done).nonzero()[0]
            self.watch(
                SimulatedBalls(
                    self.ids[live],
                    base[live],
                    person[live],
                    category[live],
                    runs[live],
                    (required if required is not None else np.full(len(balls), MAX_REQUIRED))[live],
                    balls[live],
                    wickets[live],
                    self.runs[live],
                    self.striker[live],
                    bowler[live],
                    valid[live],
                    out[live],
                    required is not None,
                )
            )
        self.deliveries += len(balls)
        self._advance(category, runs, ran, valid)

    def _person_rows(self, balls: Ints, bowler: Ints) -> Ints:
        skills = self.skills
        faced = _BIN_OF_FACED[np.minimum(self.faced, _FACED_CAP)]
        row = (self.person_row_of_ball[balls] + skills.order[self.striker]) * 9 + faced
        row = (row * 6 + skills.style[bowler]) * 2 + skills.left[self.striker]
        return row

    def _draw(self, base: Ints, person: Ints, bowler: Ints, over: Ints) -> NDArray[np.uint8]:
        """Draw the category of every future."""
        c, skills = self.model, self.skills
        n = len(base)
        # Reuse buffers between steps: page faults of new ones of this size would cost more than the
        # gathering.
        rows, others, weights = self.rows[:n], self.others[:n], self.columns[:, :n]
        self.situations.weights.take(base, axis=0, out=rows, mode="clip")
        if self.at.boundaries:
            person = person + len(c.person) * (over % 2)
        self.people.take(person, axis=0, out=others, mode="clip")
        np.multiply(rows.T, others.T, out=weights)
        shift = np.float32(c.gain) * (skills.bat_log[self.striker] + skills.bowl_log[bowler]) + self.effect
        shift += self.rhythm
        caution = self.caution
        favour = self._favour(bowler, over)
        if favour is not None:
            shift += np.float32(c.gain) * favour
            caution = caution * np.exp(np.float32(-WICKET_FIT) * favour)
        bat = np.exp(shift)
        weights[0] *= np.exp(np.float32(-c.dot_share) * shift)
        weights[4] *= bat
        weights[5] *= bat
        weights[WICKET] *= skills.bat_out[self.striker] * skills.bowl_wickets[bowler] * caution
        extras = skills.bowl_extras[bowler]
        if self.at.tired is not None:
            extras = extras * self.at.tired[1][over]
        weights[WIDE] *= extras
        weights[NO_BALL] *= extras
        if self.at.called is not None:
            weights *= self.at.called[over, :, self.striker].T
        for k in range(1, CATEGORIES):  # faster than np.cumsum along this axis
            weights[k] += weights[k - 1]
        left = self._random(np.arange(n)) * weights[-1]
        category: NDArray[np.uint8] = (left >= weights[:-1]).sum(axis=0, dtype=np.uint8)
        return category

    def _favour(self, bowler: Ints, over: Ints) -> Floats | None:
        """Return every future's log ratio of runs by `match_up` and tired bowler."""
        skills, today, tired = self.skills, self.at.today, self.at.tired
        parts = (skills.bat_spin, self.at.styles, skills.bat_form, skills.bowl_form, tired)
        if today == (0.0, 0.0) and all(one is None for one in parts):
            return None
        spins = skills.style[bowler] >= _FIRST_SPIN
        favour: Floats = np.where(spins, np.float32(today[1]), np.float32(today[0]))
        if skills.bat_spin is not None:
            kinds = np.where(spins, *(np.float32(KIND_OF_BOWLING[spin]) for spin in (True, False)))
            favour = favour + skills.bat_spin[self.striker] * kinds
        if self.at.styles is not None:
            favour = favour + self.at.styles[over, skills.style[bowler]]
        if skills.bat_form is not None:
            favour = favour + skills.bat_form[self.striker]
        if skills.bowl_form is not None:
            favour = favour - skills.bowl_form[bowler]
        if tired is not None:
            favour = favour + tired[0][over]
        return favour

    def _score(self, category: NDArray[np.uint8]) -> tuple[Ints, Bools, Bools, Bools]:
        """Score every ball.

        Returns:
            Runs, whether an odd number was run, whether it was valid, and whether a wicket fell.
        """
        runs, ran = _RUNS[category], _RAN[category]
        special = (category >= RUN_OUT).nonzero()[0]
        if special.size:
            kinds = category[special]
            u = self._random(special)
            drawn = (self.model.extras[kinds - RUN_OUT] <= u[:, np.newaxis]).sum(axis=1)
            runs[special] = drawn + (kinds != RUN_OUT)
            moved = drawn + (kinds == BYE)
            ran[special] = (moved % 2 == 1) & (moved < 4)
        out = (category == WICKET) | (category == RUN_OUT)
        valid = (category != WIDE) & (category != NO_BALL)
        return runs, ran, valid, out

    def _advance(self, category: NDArray[np.uint8], runs: Ints, ran: Bools, valid: Bools) -> None:
        """Score the ball, change ends and bring in the next batter."""
        self.runs += runs
        self.balls += valid
        self.faced += category != WIDE
        self.free_hit = (self.free_hit & ~valid) | (category == NO_BALL)
        swap = ran.copy()
        fallen = ((category == WICKET) | (category == RUN_OUT)).nonzero()[0]
        if fallen.size:
            self._replace(fallen, category[fallen] == RUN_OUT, swap)
        over_ended = valid & self.over_ends[np.minimum(self.balls, self.at.innings_balls)]
        swap ^= over_ended
        fresh = over_ended.nonzero()[0]
        self.rhythm[fresh] = self._rhythms(fresh)
        striker, faced = self.striker, self.faced
        self.striker, self.partner = (
            np.where(swap, self.partner, striker),
            np.where(swap, striker, self.partner),
        )
        self.faced, self.faced_partner = (
            np.where(swap, self.faced_partner, faced),
            np.where(swap, faced, self.faced_partner),
        )

    def _replace(self, fallen: Ints, run_out: Bools, swap: Bools) -> None:
        """Bring in the next batter for a dismissed one; after a run-out at either end."""
        self.wickets[fallen] += 1
        order = self.at.order
        place = np.minimum(self.next_in[fallen], len(order) - 1)
        incoming = order[place] if order.ndim == 1 else order[place, self.ids[fallen]]
        self.next_in[fallen] += 1
        u = self._random(fallen)
        partner_out = run_out & (u >= self.model.run_out_striker)
        striker_out, other = fallen[~partner_out], fallen[partner_out]
        self.striker[striker_out], self.faced[striker_out] = incoming[~partner_out], 0
        self.partner[other], self.faced_partner[other] = incoming[partner_out], 0
        swap[fallen[run_out]] = self._random(fallen[run_out]) < 0.5
