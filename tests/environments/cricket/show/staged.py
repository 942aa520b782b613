"""An innings staged ball by ball: what the commentary says of balls that a test chooses."""

from __future__ import annotations

from typing import Any

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.match.field import standard_field
from spectator.events import Event
from spectator.json_values import apply_patch
from spectator.narration.commentary import Line
from tools.cricket_book import Book

BATTERS = [
    f"{first} {last}"
    for first, last in zip(
        "ABCDEFGHIJK", "Arden Bosk Corran Dell Esk Frome Gorse Hale Irk Jago Kerr".split(), strict=True
    )
]
BOWLERS = ["Lu Morrow", "Mo Nevin", "Na Orton"]
KEEPER = "Ox Penrose"


class Staged:
    """A match in its first or second innings, with ``score`` made and ``left`` balls to come.

    Attributes:
        said: The lines of the last event.
        book: The scorebook of everything staged.
    """

    def __init__(
        self,
        *,
        overs: int = 20,
        target: int | None = None,
        profile: str = "men",
        left: int | None = None,
        runs: int = 0,
    ) -> None:
        self.state: dict[str, Any] = {"world": {}, "feed": {}, "episode": {"options": {"profile": profile}}}
        self.book = Book()
        self.said: list[Line] = []
        self.events: list[Event] = []
        self.length, self.overs, self.target = 6 * overs, overs, target
        teams = {
            side: {"name": name, "short": name[:3]}
            for side, name in (("home", "Lakeshire"), ("away", "Capeford"))
        }
        self.tell(
            "match_arranged",
            **teams,
            overs=overs,
            balls=6 * overs,
            powerplay_balls=0,
            bowler_overs=4,
            caller="home",
            **({} if profile == "men" else {"profile": profile}),
        )
        self.tell(
            "innings_started",
            innings=2 if target else 1,
            batting="home",
            bowling="away",
            team="Lakeshire",
            target=target,
            overs=overs,
            balls=6 * overs,
            powerplay_balls=0,
            super_over=False,
        )
        self.out: list[str] = []
        self.at = [BATTERS[0], BATTERS[1]]
        self.lines = {name: [number, 0, 0, 0, 0] for number, name in enumerate(BATTERS, 1)}
        self.bowl = {name: [number, 0, 0, 0] for number, name in enumerate(BOWLERS, 1)}
        self.runs = self.balls = self.wickets = self.delivery = 0
        self.stand = [0, 0]
        if left is not None:
            self._join(6 * overs - left, runs)

    def _join(self, balls: int, runs: int) -> None:
        """Go on from a position."""
        self.balls, self.runs = balls, runs
        score = self._score()
        cards: dict[str, Any] = {"1": {"batting": {}, "bowling": {}, "extras": {}, "overs": {}, "fall": {}}}
        cards["2"] = cards["1"]
        striker, partner = (self._batter(name) for name in self.at)
        now = {
            "innings": 2 if self.target else 1,
            "batting": "home",
            "bowling": "away",
            "target": self.target,
            "score": score,
            "balls_left": self.length - balls,
            "striker": striker,
            "non_striker": partner,
            "partnership": {"runs": 0, "balls": 0},
            "powerplay": False,
            "outside_limit": 5,
        }
        self.tell("position_set", scorecards=cards, scores={"home": score, "away": score}, now=now)

    def tell(self, kind: str, /, **data: Any) -> list[Line]:
        """Fold an event and return its lines."""
        event = Event(
            "test", "e", len(self.events) + 1, "2026-01-01T00:00:00.000Z", 0, f"cricket.{kind}", data
        )
        self.events.append(event)
        self.book.take(event.type, data)
        self.state = {
            **self.state,
            "world": apply_patch(self.state["world"], WORLD.projection(self.state, event)),
        }
        self.said = list(WORLD.commentator(event, self.state))
        feed = {
            f"{len(self.events):06d}{n}": {"text": line.text, "reply": line.reply or ""}
            for n, line in enumerate(self.said)
        }
        self.state = {**self.state, "feed": {**self.state["feed"], **feed}}
        return self.said

    def over(self, bowler: str) -> None:
        """Begin an over."""
        self.bowler, self.delivery, self.conceded, self.fell = bowler, 0, 0, 0
        self.tell(
            "over_started",
            innings=1,
            over=self.balls // 6,
            bowler=bowler,
            score=self._score(),
            powerplay=False,
        )

    def ended(self) -> list[Line]:
        """End the over."""
        need = None if self.target is None else self.target - self.runs
        return self.tell(
            "over_completed",
            innings=2 if self.target else 1,
            side="home",
            over=self.balls // 6,
            runs=self.conceded,
            wickets=self.fell,
            score=self._score(),
            bowler=self._bowling(),
            maiden=not self.conceded,
            need=need,
            balls_left=self.length - self.balls,
            striker=self.at[0],
            non_striker=self.at[1],
        )

    def ball(self, bat: int = 0, **given: Any) -> str:
        """Bowl a ball and return its caption."""
        wides, noball, how = given.get("wides", 0), given.get("noball", False), given.get("dismissal")
        valid = not wides and not noball
        self.delivery += 1
        boundary = bat in (4, 6)
        runs = bat + wides + noball
        striker = self.at[0]
        line = self.lines[striker]
        line[1] += bat
        line[2] += not wides
        line[3] += bat == 4
        line[4] += bat == 6
        bowling = self.bowl[self.bowler]
        bowling[1] += valid
        bowling[2] += runs
        bowling[3] += how not in (None, "run out")
        over, number = divmod(self.balls, 6)
        self.runs, self.balls, self.conceded = self.runs + runs, self.balls + valid, self.conceded + runs
        self.wickets, self.fell = self.wickets + bool(how), self.fell + bool(how)
        lines = [self._batter(name) for name in self.at]
        self.stand = [0, 0] if how else [self.stand[0] + runs, self.stand[1] + valid]
        if how:
            self.out.append(striker)
            self.at[0] = BATTERS[len(self.out) + 1]
        sign = "W" if how else "wd" if wides else "nb" if noball else str(bat) if bat else "·"
        zone = given.pop("zone", 6 if (bat or given.get("shot")) else None)
        data = {
            "innings": 2 if self.target else 1,
            "side": "home",
            "at": f"{over}.{number + 1}",
            "over": over,
            "ball": number + 1,
            "delivery": self.delivery,
            "striker": striker,
            "non_striker": self.at[1],
            "bowler": self.bowler,
            "bat": bat,
            "runs": runs,
            "extras": wides + noball,
            "extra_kind": "wide" if wides else "noball" if noball else None,
            "wides": wides,
            "noball": noball,
            "byes": 0,
            "legbyes": 0,
            "penalty": 0,
            "ran": 0 if boundary else bat,
            "boundary": boundary,
            "mark": sign,
            "dismissal": how,
            "out": striker if how else None,
            "kind": "wicket"
            if how
            else "six"
            if bat == 6
            else "four"
            if bat == 4
            else "extra"
            if runs > bat
            else "run"
            if bat
            else "dot",
            "fielder": KEEPER if how in ("caught", "stumped", "run out") else None,
            "position": "keeper" if how in ("caught", "stumped") else None,
            "free_hit": False,
            "powerplay": False,
            "zone": zone,
            "direction": None,
            "length": "good",
            "line": "outside off",
            "speed_kmh": 130.0,
            "shot": "drive",
            "contact": "middled" if zone else "missed",
            "aerial": bat == 6,
            "intents": {
                "aggression": 0.5,
                "shot": None,
                "attack": 0.5,
                "length": None,
                "line": None,
                "pace": None,
                "field": "standard",
            },
            "words": "A ball.",
            "score": self._score(),
            "target": self.target,
            "need": None if self.target is None else max(0, self.target - self.runs),
            "balls_left": self.length - self.balls,
            "striker_line": lines[0],
            "non_striker_line": lines[1],
            "bowler_line": self._bowling(),
            "extras_so_far": {},
            "partnership": dict(zip(("runs", "balls"), self.stand, strict=True)),
            "ends": {"striker": None if how else self.at[0], "non_striker": self.at[1]},
            "free_hit_next": noball,
            "powerplay_next": False,
            "outside_limit_next": 5,
            **given,
        }
        self.tell("ball_bowled", **data)
        text = self.said[0].text
        if how:
            new = self._batter(self.at[0])
            caption = self.said
            self.tell(
                "batter_selected",
                innings=1,
                side="home",
                player=new,
                bats="right",
                wickets=self.wickets,
                striker=self.at[0],
                non_striker=self.at[1],
            )
            self.said = caption
        return text

    def set_field(self, preset: str, *, moved: dict[str, tuple[float, float]] | None = None) -> list[Line]:
        """Set the standard field with some fielders moved."""
        fielders = [dict(one) for one in standard_field(5).shown["fielders"]]
        for one in fielders:
            if moved and one["name"] in moved:
                one["x"], one["y"] = moved[one["name"]]
        return self.tell("field_set", side="away", preset=preset, fielders=fielders)

    @property
    def ledger(self) -> dict[str, Any]:
        """The ledger now."""
        found: dict[str, Any] = self.state["world"]["ledger"]
        return found

    def _score(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "wickets": self.wickets,
            "balls": self.balls,
            "overs": f"{self.balls // 6}.{self.balls % 6}",
        }

    def _batter(self, name: str) -> dict[str, Any]:
        number, runs, balls, fours, sixes = self.lines[name]
        return {"number": number, "name": name, "runs": runs, "balls": balls, "fours": fours, "sixes": sixes}

    def _bowling(self) -> dict[str, Any]:
        number, balls, runs, wickets = self.bowl[self.bowler]
        return {
            "number": number,
            "name": self.bowler,
            "kind": "right-arm pace",
            "overs": f"{balls // 6}.{balls % 6}",
            "balls": balls,
            "maidens": 0,
            "runs": runs,
            "wickets": wickets,
            "left": 3,
        }
