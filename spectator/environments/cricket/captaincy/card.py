"""The scorecard as captains read it: who is out and how, every bowler's figures, and the innings before."""

from __future__ import annotations

from typing import Any

from spectator.environments.cricket.laws.deliveries import overs_text
from spectator.environments.cricket.laws.scorer import overs_left
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.match.event_data import dismissal_text, extras


class CaptainsCard:
    """The scorecard of one match, made anew when a wicket falls, an over begins or ends, or an innings does.

    Batters who are in and the bowler of the over are left out: an observation has their figures of this
    very ball under ``striker``, ``non_striker`` and ``bowler``.

    Args:
        match: The match.
    """

    def __init__(self, match: Match) -> None:
        self._match = match
        self._made_at: tuple[int | None, ...] = ()
        self._shown: dict[str, Any] = {}

    def shown(self) -> dict[str, Any]:
        """``{"out", "bowling", "maidens", "extras", "earlier"}``; the same object until it changes."""
        innings = self._match.innings[-1]
        score_of_extras = innings.wides + innings.noballs + innings.byes + innings.legbyes
        at = (
            len(self._match.innings), innings.wickets, len(innings.overs), innings.bowler, score_of_extras,
        )  # fmt: skip
        if at != self._made_at:
            earlier = self._shown.get("earlier", [])
            if len(earlier) != len(self._match.innings) - 1:
                earlier = [_closed(self._match, number) for number in range(len(self._match.innings) - 1)]
            self._made_at, self._shown = at, {**_card(self._match, innings.bowler), "earlier": earlier}
        return self._shown


def _card(match: Match, bowling_now: int | None) -> dict[str, Any]:
    number = len(match.innings) - 1
    kinds = {kind: runs for kind, runs in extras(match.innings[-1]).items() if runs}
    present = None if bowling_now is None else match.innings[-1].bowling[bowling_now]
    return {
        "out": _out(match, number),
        "bowling": _bowling(match, number, bowling_now, left=True),
        "maidens": 0 if present is None else present.maidens,
        "extras": kinds,
    }


def _closed(match: Match, number: int) -> dict[str, Any]:
    """An innings that is over, whole."""
    innings, team = match.innings[number], match.teams[match.batting[number]]
    return {
        "batting": match.batting[number],
        "runs": innings.runs,
        "wickets": innings.wickets,
        "overs": overs_text(innings.balls),
        "out": _out(match, number),
        "not_out": [
            {"name": team.players[player].name, "runs": line.runs, "balls": line.balls}
            for player, line in innings.batting.items()
            if line.how is None
        ],
        "bowling": _bowling(match, number, None, left=False),
    }


def _out(match: Match, number: int) -> list[dict[str, Any]]:
    innings, side = match.innings[number], match.batting[number]
    team, rivals = match.teams[side], match.teams["away" if side == "home" else "home"]
    score_at = {player: (runs, overs_text(balls)) for runs, _, player, balls in innings.fall}
    fell = {player: wicket for _, wicket, player, _ in innings.fall}
    return [
        {
            "name": team.players[player].name,
            "runs": line.runs,
            "balls": line.balls,
            "how": dismissal_text(line, team, rivals),
            "score": score_at.get(player, (None, None))[0],
            "at": score_at.get(player, (None, None))[1],
        }
        for player, line in sorted(innings.batting.items(), key=lambda one: fell.get(one[0], 99))
        if line.how is not None
    ]


def _bowling(match: Match, number: int, without: int | None, *, left: bool) -> list[dict[str, Any]]:
    innings = match.innings[number]
    team = match.teams["away" if match.batting[number] == "home" else "home"]
    shown = []
    for player, line in innings.bowling.items():
        if player != without:
            figures = {
                "name": team.players[player].name,
                "overs": overs_text(line.balls),
                "maidens": line.maidens,
                "runs": line.runs,
                "wickets": line.wickets,
            }
            shown.append({**figures, "overs_left": overs_left(innings, player)} if left else figures)
    return shown
