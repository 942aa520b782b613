"""The analyst of a match: follows it from its seed, and weighs what else could be called at any decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.environments.alternatives import Alternatives
from spectator.environments.cricket.analysis.ball_calls import (
    Intended,
    batting_calls,
    bowling_calls,
    weigh_ball,
)
from spectator.environments.cricket.analysis.choices import weigh_choice
from spectator.environments.cricket.analysis.orders import weigh_orders
from spectator.environments.cricket.analysis.weighing import Call, Weighed, best_of
from spectator.environments.cricket.captaincy.arguments import TOOLS
from spectator.environments.cricket.captaincy.legal_tools import ADVANCING
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.laws.deliveries import Side
from spectator.environments.cricket.match.captain_state import CaptainState
from spectator.environments.seeds import derive_seed
from spectator.observations import Observation
from spectator.policies.base import Action

NOTHING: Final = Alternatives((), 0, 0, "Nothing is simulated in a super over, or once a match is decided.")
REFUSED: Final = Alternatives((), 0, 0, "This call was refused, and the captain asked again: see the next.")


class CricketAnalyst(CricketEnvironment):
    """A match that reads the day off every ball, forecasts nothing, and weighs calls when it is asked."""

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin a match, with all that costs time and changes nothing of it left out."""
        plain = {**options, "forecast_futures": 0, "reward": "score"}
        observation = super().reset(seed=seed, episode_id=episode_id, options=plain)
        self._playing.reads = True
        return observation

    def step(self, action: Action) -> Observation:
        """Do what was decided; what happened is told to nobody."""
        observation = super().step(action)
        self.facts()
        return observation

    def alternatives(self, decided: Action) -> Alternatives:
        """What could be called where it stands."""
        game = self._playing
        phase, side = game.turn()
        if side is None:
            return NOTHING
        twin = CricketEnvironment()
        twin.restore(self.snapshot())
        if twin.step(decided).refused is not None:
            return REFUSED
        tool = decided["tool"]
        given = TOOLS[tool].model_validate(dict(decided.get("arguments") or {})).model_dump()
        seed = derive_seed(self._seed, "alternatives", self._steps) % 2**32
        found: tuple[Weighed, Call] | None
        if phase in ("bowl", "bat"):
            after = game if tool in ADVANCING else twin._playing
            found = self._weigh_ball(side, tool, given, after.captains[side], seed)
        elif phase in ("bowling_plan", "batting_plan"):
            found = weigh_orders(game, tool, self._legal[0], given, seed)
        else:
            found = weigh_choice(game, side, tool, given, seed)
        return NOTHING if found is None else best_of(*found)

    def _weigh_ball(
        self, side: Side, tool: str, given: Mapping[str, Any], after: CaptainState, seed: int
    ) -> tuple[Weighed, Call] | None:
        """What could be called for the ball; with the call that goes on, what was used before it as well."""
        game = self._playing
        own = game.captains[side]
        legal = (*self._legal, *own.turn_tools) if tool in ADVANCING else self._legal
        if side == game.playing.fielding_side:
            calls = list(bowling_calls(game, own.bowling_intent(), legal))
            return weigh_ball(game, calls, Intended(tool, given, after.bowling_intent()), seed)
        calls = list(batting_calls(own.batting_intent(), legal, own.shot_aggression is not None))
        return weigh_ball(game, calls, Intended(tool, given, after.batting_intent()), seed)
