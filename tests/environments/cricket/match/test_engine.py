"""A match knows its innings in progress, in whichever way it came to it."""

from __future__ import annotations

from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match
from spectator.environments.cricket.scorer import other
from tests.environments.cricket.playing import begin, captain


def follows_its_last_innings(match: Match) -> bool:
    """Whether all that lasts as long as an innings is that of the last one."""
    side = match.batting[-1]
    return (
        match.current is match.innings[-1]
        and match.number == len(match.innings)
        and (match.batting_side, match.fielding_side) == (side, other(side))
        and match.effect == match.effects.of(len(match.innings))
    )


def test_a_match_knows_its_innings_when_played_copied_and_restored() -> None:
    environment, seen = begin(5, max_overs=1)
    captains = {side: captain("heuristic", 5) for side in ("home", "away")}
    innings = set()
    while not seen.done:
        assert seen.actor is not None
        seen = environment.step(captains[seen.actor].choose(seen).action)
        game = environment._game
        if game is None or game.match is None:
            continue
        innings.add(game.match.number)
        again, _ = begin(6, max_overs=1)
        again.restore(environment.snapshot())
        restored = again._game
        assert restored is not None and restored.match is not None
        for match in (game.match, game.match.copy(), restored.match):
            assert follows_its_last_innings(match)
        assert restored.match.effect == game.match.effect
    assert innings >= {1, 2}


def test_a_copy_goes_its_own_way() -> None:
    environment, seen = begin(5, max_overs=1)
    captains = {side: captain("heuristic", 5) for side in ("home", "away")}
    while "play_delivery" not in [one["tool"] for one in seen.legal_actions]:
        assert seen.actor is not None
        seen = environment.step(captains[seen.actor].choose(seen).action)
    game = environment._game
    assert game is not None and game.match is not None
    twin = game.match.copy()
    twin.play(BattingIntent(), BowlingIntent())
    assert (twin.current.deliveries, game.match.current.deliveries) == (1, 0)
