"""A scorebook of cricket kept from the raw events, and the numerical claims of a line that it contradicts.

:class:`Book` counts runs, wickets, balls, streaks and figures itself. Nothing here uses the ledger, the
tables of phrases or the totals in the events.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

Data = Mapping[str, Any]


class Book:
    """A scorebook of one match, from the raw facts of its events."""

    def __init__(self, overs: int = 20) -> None:
        self.overs = overs
        self.players: set[str] = set()
        self.kind = ""
        self.data: Data = {}
        self.chances: list[float] = []
        self._innings(None, 6 * overs, False)

    def _innings(self, target: int | None, balls: int, super_over: bool) -> None:
        self.target, self.length, self.super_over = target, balls, super_over
        self.runs = self.wickets = self.balls = self.dots = self.row = self.waited = 0
        self.over_runs = self.over_wickets = self.over_deliveries = self.over_dear = 0
        self.stand, self.ended_stand = [0, 0], [0, 0]
        self.bat: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self.bowl: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self.hunt: dict[str, int] = defaultdict(int)
        self.hunt_before = self.dots_before = self.waited_before = self.row_before = 0
        self.marks: list[str] = []
        self.over_bowled = 0

    def take(self, kind: str, data: Data) -> None:
        """Enter an event."""
        self.kind, self.data = kind.removeprefix("cricket."), data
        match self.kind:
            case "match_arranged":
                self.overs = data["overs"]
            case "innings_started":
                self._innings(data["target"], data["balls"], data["super_over"])
            case "position_set" if data["now"] is not None:
                self._position(data["now"], data["scorecards"])
            case "over_started":
                self.over_runs = self.over_wickets = self.over_deliveries = self.over_dear = 0
                self.marks = []
            case "over_completed":
                self.over_bowled += 1
                self.bowl[data["bowler"]["name"]][3] += not self.over_dear
            case "forecast" if data["futures"]:
                self.chances.append(data["home"])
            case "ball_bowled":
                self._ball(data)
            case "batter_selected":
                self.players.add(data["player"]["name"])
            case "bowler_selected":
                self.players.add(data["bowler"]["name"])

    def _position(self, now: Data, cards: Data) -> None:
        self._innings(now["target"], 6 * self.overs, False)
        score, card = now["score"], cards[str(now["innings"])]
        self.runs, self.wickets, self.balls = score["runs"], score["wickets"], score["balls"]
        self.over_bowled = self.balls // 6
        self.stand = [now["partnership"]["runs"], now["partnership"]["balls"]]
        for one in card["batting"].values():
            self.bat[one["name"]] = [one["runs"], one["balls"], one["fours"], one["sixes"]]
        for one in card["bowling"].values():
            whole, _, part = one["overs"].partition(".")
            self.bowl[one["name"]] = [
                one["runs"],
                one["wickets"],
                6 * int(whole) + int(part or 0),
                one["maidens"],
            ]

    def _ball(self, ball: Data) -> None:
        runs = ball["bat"] + ball["wides"] + ball["noball"] + ball["byes"] + ball["legbyes"] + ball["penalty"]
        valid = not ball["wides"] and not ball["noball"]
        striker, bowler = self.bat[ball["striker"]], self.bowl[ball["bowler"]]
        hit = ball["boundary"] and not ball["ran"] and ball["bat"] >= 4 and not ball["dismissal"]
        took = ball["dismissal"] not in (None, "run out")
        self.bat[ball["non_striker"]]
        striker[0] += ball["bat"]
        striker[1] += not ball["wides"]
        striker[2] += bool(hit and ball["bat"] == 4)
        striker[3] += bool(hit and ball["bat"] == 6)
        bowler[0] += runs - ball["byes"] - ball["legbyes"] - ball["penalty"]
        bowler[1] += took
        bowler[2] += valid
        self.runs, self.balls = self.runs + runs, self.balls + valid
        self.wickets += bool(ball["dismissal"])
        self.dots_before, self.row_before, self.waited_before = self.dots, self.row, self.waited
        self.dots = self.dots + 1 if not runs and not ball["dismissal"] else 0
        self.row = self.row + 1 if hit else 0
        self.waited = 0 if hit else self.waited + valid
        self.hunt_before = self.hunt[ball["bowler"]]
        self.hunt[ball["bowler"]] = self.hunt_before + 1 if took else 0 if valid else self.hunt_before
        self.over_runs += runs
        self.over_dear += runs - ball["byes"] - ball["legbyes"] - ball["penalty"]
        self.over_wickets += bool(ball["dismissal"])
        self.over_deliveries += 1
        self.stand = [self.stand[0] + runs, self.stand[1] + (not ball["wides"])]
        if ball["dismissal"]:
            self.ended_stand, self.stand = self.stand, [0, 0]
        self.marks.append(f"{ball['bat']}" if hit else "W" if ball["dismissal"] else "-")
        self.players |= {
            ball["striker"],
            ball["non_striker"],
            ball["bowler"],
            ball["fielder"] or ball["bowler"],
        }

    @property
    def left(self) -> int:
        """Valid balls left."""
        return self.length - self.balls

    @property
    def need(self) -> int | None:
        """Runs needed; ``None`` without a target."""
        return None if self.target is None else self.target - self.runs

    def strain(self) -> float:
        """Return the runs needed over those that a side usually still makes; 1 is even."""
        if self.need is None or self.left <= 0 or self.wickets >= 10:
            return 0.0 if self.need is None else 9.0
        if self.super_over:
            return self.need / (2.2 * self.left)
        hand = 10 - self.wickets
        rate = (5.6 if self.overs > 20 else 8.3) * (0.42 + 0.058 * hand)
        late = 1.0 + max(0.0, 40 - self.left) * 0.012 + (0.12 if self.overs <= 20 else 0.0)
        return self.need / (self.left / 6.0 * rate * late)


def _over_words(balls: int) -> set[str]:
    over, part = divmod(balls, 6)
    return {f"{over}.{part}"} if part else {f"{over}.0", str(over)}


N: Final = r"(\d+)"


def read_claims(book: Book, text: str) -> Iterator[str]:
    """Check each numerical claim; what is left of numbers is a fault."""
    if book.kind in ("match_arranged", "position_set", "super_over_started"):
        return
    rest = text
    for pattern, check in _CLAIMS:
        while found := re.search(pattern, rest):
            wrong = check(book, *found.groups())
            if wrong:
                yield f"{found[0]!r}: {wrong}"
            rest = f"{rest[: found.start()]} ~ {rest[found.end() :]}"
    known = _runs_of(book.data) if book.kind == "ball_bowled" else set()
    for number in map(int, re.findall(r"\d+", rest)):
        if number not in known:
            yield f"nothing explains {number}"


def _runs_of(ball: Data) -> set[int]:
    """Return the figures that a line may give for the runs of a ball."""
    byes = ball["byes"] + ball["legbyes"]
    found = {ball["runs"], byes or ball["runs"]}
    if not ball["wides"] and not byes:
        found.add(ball["bat"])
    if ball["dismissal"]:
        found.add(ball["runs"] - bool(ball["wides"] or ball["noball"]))
    return found


def bowler_of(book: Book) -> list[int]:
    """Return the figures of the bowler that the last event names."""
    named = book.data["bowler"]
    return book.bowl[named["name"] if isinstance(named, Mapping) else named]


def dismissed(book: Book) -> list[int]:
    """Return the figures of the batter who is out or else faced the last ball."""
    return book.bat[book.data.get("out") or book.data.get("striker") or ""]


def _first(groups: tuple[str | None, ...]) -> str:
    return next(filter(None, groups))


def _is(value: object, *allowed: object) -> str:
    return "" if value in allowed else f"{value} is not {' or '.join(map(str, allowed))}"


def _figures(book: Book, wickets: str, runs: str, overs: str) -> str:
    if book.kind == "innings_ended":
        return _score(book, wickets, runs) or _is(overs in _over_words(book.balls), True)
    line = bowler_of(book)
    wanted = (line[1], line[0])
    said = (0 if wickets.lower() in ("none", "nought") else int(wickets), int(runs))
    return _is(said, wanted) or _is(overs in _over_words(line[2]), True)


def _score(book: Book, runs: str, wickets: str) -> str:
    return _is((int(runs), 0 if wickets == "none" else int(wickets)), (book.runs, book.wickets))


def _pair(book: Book, runs: str, balls: str) -> str:
    left = 1 if "last" in balls else int(balls)
    if book.kind == "innings_started":
        return _is((int(runs), left), (book.target, book.overs))
    allowed: list[tuple[int | None, int]] = [(book.need, book.left)] if book.need is not None else []
    if book.kind == "ball_bowled" and book.data["dismissal"]:
        allowed.append((dismissed(book)[0], dismissed(book)[1]))
    if book.kind == "over_completed":
        allowed.append((book.stand[0], book.stand[1]))
    return _is((int(runs), left), *allowed)


def _equation(book: Book, runs: str, balls: str) -> str:
    return _is((int(runs), 1 if "last" in balls else int(balls)), (book.need, book.left))


def _rate(book: Book, rate: str) -> str:
    allowed = set()
    if book.need is not None and book.left:
        allowed.add(f"{6.0 * book.need / book.left:.1f}")
    if book.balls:
        allowed.add(f"{6.0 * book.runs / book.balls:.1f}")
    return _is(rate, *allowed)


def _required(book: Book, *given: str | None) -> str:
    rate = _first(given)
    return (
        _is(rate, f"{6.0 * book.need / book.left:.1f}") if book.need is not None and book.left else "no chase"
    )


def _current(book: Book, *given: str | None) -> str:
    rate = _first(given)
    return _is(rate, f"{6.0 * book.runs / book.balls:.1f}") if book.balls else "no ball yet"


def _taken(book: Book, runs: str) -> str:
    return _is(int(runs), book.over_runs) or ("in a chase" if book.need is not None else "")


def _chance(book: Book, *given: str | None) -> str:
    was, now = filter(None, given)
    known = {round(100 * p) for one in book.chances for p in (one, 1 - one)}
    if book.kind == "forecast" and len(book.chances) > 1:
        a, b = book.chances[-2:]
        return _is(
            (int(was), int(now)),
            *{(round(100 * a), round(100 * b)), (round(100 * (1 - a)), round(100 * (1 - b)))},
        )
    return "" if {int(was), int(now)} <= known and int(was) < int(now) else "not simulated"


def _milestone(book: Book, *given: str | None) -> str:
    value, balls = filter(None, given)
    line = book.data
    if line.get("kind") == "batter":
        made, faced = book.bat[line["name"]][:2]
        return _is(int(balls), faced) or (
            "" if made >= int(value) and int(value) % 50 == 0 and made - int(value) < 7 else "no such score"
        )
    made, faced = book.stand if book.stand[1] else book.ended_stand
    return _is(int(balls), faced) or ("" if 0 <= made - int(value) < 7 else "no such stand")


def _team_total(book: Book, *given: str | None) -> str:
    value = _first(given)
    return "" if 0 <= book.runs - int(value) < 8 and int(value) % 50 == 0 else f"the total is {book.runs}"


def _card(book: Book, runs: str, balls: str, fours: str | None = None, sixes: str | None = None) -> str:
    if book.kind == "wicket_fell":
        return _is(
            [int(runs), int(balls), int(fours or 0), int(sixes or 0)], book.bat[book.data["player"]["name"]]
        )
    best = max(line[0] for line in book.bat.values())
    return _is(int(runs), best) or (
        ""
        if any(line[:2] == [int(runs), int(balls)] for line in book.bat.values())
        else "no batter with these"
    )


def _took(book: Book, wickets: str, runs: str) -> str:
    best = min((-line[1], line[0]) for line in book.bowl.values())
    return _is((int(wickets), int(runs)), (-best[0], best[1]))


def _lost_over(book: Book, *given: str | None) -> str:
    wickets = _first(given)
    return _is(int(wickets), book.over_wickets)


def _at_crease(book: Book, *given: str | None) -> str:
    said = [int(one) for one in given if one]
    at = [book.bat[name][:2] for name in (book.data["striker"], book.data["non_striker"]) if name]
    return _is(said, *at)


def _gone_for(book: Book, runs: str, balls: str) -> str:
    return _is([int(runs), int(balls)], dismissed(book)[:2])


def _stand(book: Book, runs: str, balls: str) -> str:
    return _is([int(runs), int(balls)], book.stand)


def _won(book: Book, margin: str, what: str) -> str:
    if "super over" in what or book.super_over:
        return ""
    wanted = 10 - book.wickets if what.startswith("wicket") else (book.target or 0) - 1 - book.runs
    return _is(int(margin), wanted)


def _hand(book: Book, wickets: str) -> str:
    return _is(int(wickets), (2 if book.super_over else 10) - book.wickets)


_CLAIMS: Final[tuple[tuple[str, Any], ...]] = (
    (
        r"\b(\d+)-(\d+)-(\d+)-(\d+)\b",
        lambda b, o, m, r, w: _is([int(r), int(w), 6 * int(o), int(m)], bowler_of(b)),
    ),
    (r"\b(\d+|[Nn]one) for (\d+) from (\d+(?:\.\d)?)(?: overs?)?", _figures),
    (r"took (\d+) for (\d+)", _took),
    (r"top-scored with (\d+) off (\d+)", _card),
    (r"\b(\d+) \((\d+)b(?: (\d+)x4)?(?: (\d+)x6)?\)", _card),
    (rf"{N} down for {N}", lambda b, w, r: _score(b, r, w)),
    (rf"{N} from {N} balls? and looks set|{N} not out, from {N} balls?|now: {N} from {N} balls?", _at_crease),
    (rf"{N} needed from (\d+|the last ball)(?: balls?)?", _equation),
    (rf"{N} (?:still )?to get from {N} balls?", _equation),
    (rf"still {N} to get from {N} balls?", _equation),
    (rf"(?:[Tt]hese 2 have put on|stand is worth) {N}(?: now)?,? from {N} balls?", _stand),
    (rf"{N} together from {N} balls?", _stand),
    (rf"need {N} from {N} overs", _pair),
    (rf"(?:scoring|Nothing for \S+), from {N} balls?", lambda b, n: _is([0, int(n)], dismissed(b)[:2])),
    (
        rf"bowled out for {N}|last wicket falls at {N}|innings is over at {N}",
        lambda b, *n: _is((int(_first(n)), b.wickets), (b.runs, 10)),
    ),
    (rf"(?:had|made|gone for|goes for) {N} from {N} balls?", _gone_for),
    (rf"{N} from {N} balls? (?:was all|for )", _gone_for),
    (rf"{N} from (\d+|the last ball)(?: balls?)?", _pair),
    (
        rf"{N} dots|{N} dots running",
        lambda b, n, m: _is(int(n or m), b.dots, *([b.dots_before] if not b.dots else [])),
    ),
    (rf"\bwith {N} still to get|and {N} needed", lambda b, n, m: _is(int(n or m), b.need)),
    (rf"^.*?{N} cannot be done now", lambda b, n: _is(int(n), b.need)),
    (rf"{N} boundaries in a row|{N} in a row to the rope", lambda b, n, m: _is(int(n or m), b.row)),
    (
        rf"{N} wickets in {N} balls for",
        lambda b, n, m: _is((int(n), int(m)), (b.hunt[b.data["bowler"]],) * 2),
    ),
    (r"three in three|3 in 3", lambda b: _is(b.hunt[b.data["bowler"]], 3)),
    (r"2 in 2 to end it", lambda b: _is(b.hunt[b.data["bowler"]["name"]], 2)),
    (r"2 in 2", lambda b: _is(b.hunt[b.data["bowler"]], 2)),
    (rf"{N} wickets in (?:the over|it)|over with {N} wickets|That is {N} in this over", _lost_over),
    (
        r"2 (sixes|fours) running",
        lambda b, what: _is((b.row, b.data["bat"]), (2, 6 if what == "sixes" else 4)),
    ),
    (rf"(?:for|waited) {N} balls", lambda b, n: _is(int(n), b.waited_before)),
    (rf"stand of {N}|partnership was worth {N}", lambda b, n, m: _is(int(n or m), b.ended_stand[0])),
    (rf"{N} sixes", lambda b, n: _is(int(n), b.bat[b.data["striker"]][3])),
    (rf"has {N} now", lambda b, n: _is(int(n), bowler_of(b)[1])),
    (rf"{N} metres", lambda b, n: "" if int(n) <= 63 else "not short"),
    (rf"{N} wickets? in hand", _hand),
    (rf"will take {N} runs? an over all day", _taken),
    (
        r"([\d.]+) an over from here|need ([\d.]+) from here|comes down to (\d+\.\d)"
        r"|([\d.]+) an over (?:wins it|will do|is asked)",
        _required,
    ),
    (
        r"(?:going at|gone at|keeps .*? at) ([\d.]+)(?: an over)?|([\d.]+) an over so far"
        r"|far it has been ([\d.]+\d)|on the board, ([\d.]+) an over",
        _current,
    ),
    (r"([\d.]+\d) an over", _rate),
    (rf"from {N} % to {N} %|were at {N} % before that over\. They are at {N} % now", _chance),
    (
        rf"(?:go|up) from {N} to {N} in 100|had {N} chances in 100, now {N}"
        rf"|turns: {N} in 100 for .*? before that, {N} after",
        _chance,
    ),
    (
        rf"^{N} (?:for|to|partnership for) .*?(?:, off| in) {N} balls?|reaches {N}, off {N} balls?"
        rf"|have put on {N}, off {N} balls?",
        _milestone,
    ),
    (rf"^{N} up for|reach {N}\.|^{N} on the board for", _team_total),
    (
        r"^5 wickets for",
        lambda b: _is((bowler_of(b) if "bowler" in b.data else b.bowl[b.data["name"]])[1], 5),
    ),
    (
        rf"End of over {N}|[Aa]fter {N} overs?|{N} overs? gone",
        lambda b, *n: _is(int(_first(n)), b.over_bowled),
    ),
    (rf"{N} overs to come", lambda b, n: _is(6 * int(n), b.length)),
    (rf"won by {N} (\w+)", _won),
    (rf"\({N} balls? left\)", lambda b, n: _is(int(n), b.left)),
    (rf"{N} to win", lambda b, n: _is(int(n), b.target)),
    (
        rf"{N} all out from (\d+(?:\.\d)?) overs?",
        lambda b, n, o: _is((int(n), o in _over_words(b.balls)), (b.runs, True)),
    ),
    (rf"{N} all out", lambda b, n: _is(int(n), b.runs)),
    (rf"(?:conceded) {N} runs?", lambda b, n: _is(int(n), bowler_of(b)[0])),
    (
        rf"{N} more on the move|and {N} others|and {N} more|, {N} others with them|shift {N} others|^{N} on",
        lambda b, *n: "",
    ),
    (r"(\d+) for (\d+|none)\b", _score),
    (
        rf"(?:ball before went for|^.*?) ?{N}(?: and out)?: [A-Z]\S+ (?:answers back|has the last word)",
        lambda b, n: _is(n, b.marks[-2]),
    ),
    (r"in all", lambda b: ""),
    (
        rf"{N} runs?(?: (?:off|and|in|from|to)|[.,:]|$)",
        lambda b, n: _is(int(n), *(_runs_of(b.data) if b.kind == "ball_bowled" else {b.over_runs})),
    ),
    (rf"{N} (?:runs )?(?:off it|is a dear)", lambda b, n: _is(int(n), b.over_runs)),
    (rf"{N} wickets?", lambda b, n: _is(int(n), b.over_wickets)),
    (rf"[Gg]one for {N}|had {N}\b", lambda b, *n: _is(int(_first(n)), dismissed(b)[0])),
    (r"6 balls and not a run", lambda b: _is(b.over_dear, 0)),
    (r"(?i)1 ball away|1 more for a maiden", lambda b: ""),
    (r"[Tt]he next 1 is a free hit", lambda b: "" if b.data["free_hit_next"] else "no free hit"),
    (rf"^{N} needed", lambda b, n: _is(int(n), b.need)),
)
