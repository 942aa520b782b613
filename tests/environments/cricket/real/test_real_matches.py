"""Real matches: read, rated, started from any ball, played on, priced."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from spectator.environments.cricket.imported_matches import import_matches
from spectator.environments.cricket.match.engine import load_model
from spectator.environments.cricket.match.starts import advance, position
from spectator.environments.cricket.real_matches import MatchPlace, new_match, reach
from tests.environments.cricket.real.cricsheet_files import cricsheet_of, simulated, written


def plain(shown: dict[str, Any]) -> dict[str, Any]:
    """A position without what Cricsheet does not record: styles, and who keeps wicket."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(one) for key, one in value.items() if key not in ("kind", "bowler")}
        return value.replace("†", "") if isinstance(value, str) else value

    return {**cleaned(shown), "overs": [one.get("overs") for one in shown["scorecards"].values()]}


def test_the_scorecard_at_every_ball_is_the_original_one(tmp_path: Path) -> None:
    for seed, overs in ((1, 20), (2, 50), (3, 5)):
        path = written(tmp_path, f"match {seed}", cricsheet_of(simulated(seed, overs)))
        report = import_matches([path])
        assert not report.refused and len(report.kept) == 1
        record = report.kept[0].record
        assert record.stop is None
        original, at = simulated(seed, overs), {1: 0, 2: 0}
        while original.result is None:
            if original.awaited == "ball":
                number = original.number
                place = MatchPlace(number, at[number])
                match = new_match(record, place, load_model("men", "all"), random.Random(0))
                for _ in reach(match, record, place):
                    pass
                while match.awaited != "ball":
                    bring = original.current
                    if match.awaited == "batter":
                        named = original.teams[original.batting_side].named(
                            bring.striker if match.current.striker is None else bring.non_striker
                        )
                        match.send_in(match.teams[match.batting_side].find(named) or 0)
                    else:
                        named = original.teams[original.fielding_side].named(bring.bowler)
                        match.give_ball(match.teams[match.fielding_side].find(named) or 0)
                assert plain(position(match)) == plain(position(original)), place
                at[number] += 1
            advance(original)
