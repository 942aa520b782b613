"""Read cricket commentary against a scorebook kept from the raw events.

:class:`Book` counts runs, wickets, balls, streaks and figures itself. :meth:`Book.faults` reads one line
about the last event and returns what the book contradicts: numbers, names, equations, judgements of the rate,
milestones, streaks, strokes, lengths and places. A number that no claim explains is a fault too. Nothing here
uses the ledger, the tables of phrases or the totals in the events.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

Data = Mapping[str, Any]

_SMALL: Final = (
    "nought one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS: Final = {
    word: 10 * n for n, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_UNIT: Final = "|".join(_SMALL)
_TEN: Final = "|".join(_TENS)
_BELOW_100: Final = rf"(?:(?:{_TEN})(?:-(?:{_UNIT}))?|{_UNIT})"
_WORDS: Final = re.compile(
    rf"(?<!that )(?<!good )(?<!dear )(?<!ight )(?<!big )(?<!the )(?<!this )(?<!see )\b(?:(?:an?"
    rf"|{_UNIT}) hundred(?: and {_BELOW_100})?|"
    rf"{_BELOW_100})(?: point (?:{_UNIT}))?\b",
    re.I,
)
_ORDINAL: Final = {
    word: n for n, word in enumerate("first second third fourth fifth sixth seventh eighth ninth".split(), 1)
}


def in_figures(text: str) -> str:
    """Return ``text`` with its number words as figures.

    >>> in_figures("One hundred and five for six, seven point three an over")
    '105 for 6, 7.3 an over'
    """
    return _WORDS.sub(_figure, text)


def _figure(found: re.Match[str]) -> str:
    words, _, point = found[0].lower().partition(" point ")
    total = 0
    for word in re.split(r"[ -]", words):
        if word == "hundred":
            total = 100 * max(1, total)
        elif word not in ("and", "a", "an"):
            total += _TENS.get(word) or _SMALL.index(word)
    return f"{total}.{_SMALL.index(point)}" if point else str(total)


def surname(name: str) -> str:
    """Return the name used on air."""
    return name.partition(" ")[2] or name


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

    def faults(self, text: str, *, answer: bool = False) -> list[str]:
        """Return what the book contradicts in a line about the last event.

        Args:
            answer: Whether the second commentator says it.
        """
        plain = in_figures(text.replace("OUT! 1st", ""))
        found = [*_read_claims(self, plain), *_read_names(self, text), *_read_judgements(self, plain)]
        if self.kind == "ball_bowled" and not answer and not text.startswith("The powerplay"):
            found += [*_read_result(self.data, plain), *_read_strokes(self.data, text)]
        return found


def _over_words(balls: int) -> set[str]:
    return {f"{balls // 6}.{balls % 6}", str(balls // 6)} if balls % 6 == 0 else {f"{balls // 6}.{balls % 6}"}


N: Final = r"(\d+)"


def _read_claims(book: Book, text: str) -> Iterator[str]:
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
    loose = [int(number) for number in re.findall(r"\d+", rest)]
    known = set()
    if book.kind == "ball_bowled":
        ball = book.data
        known = _runs_of(ball)
    for number in loose:
        if number not in known:
            yield f"nothing explains {number}"


def _runs_of(ball: Data) -> set[int]:
    """Return the figures that a line may give for the runs of a ball."""
    extra = bool(ball["wides"] or ball["noball"])
    found = {ball["runs"]} | (
        {ball["bat"]} if not ball["wides"] and not ball["byes"] + ball["legbyes"] else set()
    )
    return (
        found
        | {ball["byes"] + ball["legbyes"] or ball["runs"]}
        | ({ball["runs"] - extra} if ball["dismissal"] else set())
    )


def _bowler(book: Book) -> list[int]:
    named = book.data["bowler"]
    return book.bowl[named["name"] if isinstance(named, Mapping) else named]


def _out(book: Book) -> list[int]:
    return book.bat[book.data.get("out") or book.data.get("striker") or ""]


def _is(value: object, *allowed: object) -> str:
    return "" if value in allowed else f"{value} is not {' or '.join(map(str, allowed))}"


def _figures(book: Book, wickets: str, runs: str, overs: str) -> str:
    if book.kind == "innings_ended":
        return _score(book, wickets, runs) or _is(overs in _over_words(book.balls), True)
    line = _bowler(book)
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
        allowed.append((_out(book)[0], _out(book)[1]))
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


def _required(book: Book, rate: str) -> str:
    return (
        _is(rate, f"{6.0 * book.need / book.left:.1f}") if book.need is not None and book.left else "no chase"
    )


def _current(book: Book, rate: str) -> str:
    return _is(rate, f"{6.0 * book.runs / book.balls:.1f}") if book.balls else "no ball yet"


def _taken(book: Book, runs: str) -> str:
    return _is(int(runs), book.over_runs) or ("in a chase" if book.need is not None else "")


def _chance(book: Book, was: str, now: str) -> str:
    known = {round(100 * p) for one in book.chances for p in (one, 1 - one)}
    if book.kind == "forecast" and len(book.chances) > 1:
        a, b = book.chances[-2:]
        return _is(
            (int(was), int(now)),
            *{(round(100 * a), round(100 * b)), (round(100 * (1 - a)), round(100 * (1 - b)))},
        )
    return "" if {int(was), int(now)} <= known and int(was) < int(now) else "not simulated"


def _milestone(book: Book, value: str, balls: str) -> str:
    line = book.data
    if line.get("kind") == "batter":
        made, faced = book.bat[line["name"]][:2]
        return _is(int(balls), faced) or (
            "" if made >= int(value) and int(value) % 50 == 0 and made - int(value) < 7 else "no such score"
        )
    made, faced = book.stand if book.stand[1] else book.ended_stand
    return _is(int(balls), faced) or ("" if 0 <= made - int(value) < 7 else "no such stand")


def _team_total(book: Book, value: str) -> str:
    return "" if 0 <= book.runs - int(value) < 8 and int(value) % 50 == 0 else f"the total is {book.runs}"


def _card(book: Book, runs: str, balls: str, fours: str | None = None, sixes: str | None = None) -> str:
    if book.kind == "wicket_fell":
        return _is(
            [int(runs), int(balls), int(fours or 0), int(sixes or 0)], book.bat[book.data["player"]["name"]]
        )
    best = max(line[0] for line in book.bat.values())
    return _is(int(runs), best) or (
        "" if any(line[:2] == [int(runs), int(balls)] for line in book.bat.values()) else "nobody"
    )


def _took(book: Book, wickets: str, runs: str) -> str:
    best = min((-line[1], line[0]) for line in book.bowl.values())
    return _is((int(wickets), int(runs)), (-best[0], best[1]))


def _made_over(book: Book, runs: str) -> str:
    return _is(int(runs), book.over_runs)


def _lost_over(book: Book, wickets: str) -> str:
    return _is(int(wickets), book.over_wickets)


def _at_crease(book: Book, *given: str | None) -> str:
    said = [int(one) for one in given if one]
    at = [book.bat[name][:2] for name in (book.data["striker"], book.data["non_striker"]) if name]
    return _is(said, *at)


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
        lambda b, o, m, r, w: _is([int(r), int(w), 6 * int(o), int(m)], _bowler(b)),
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
    (
        rf"(?:[Tt]hese 2 have put on|stand is worth) {N}(?: now)?,? from {N} balls?",
        lambda b, r, n: _is([int(r), int(n)], b.stand),
    ),
    (rf"{N} together from {N} balls?", lambda b, r, n: _is([int(r), int(n)], b.stand)),
    (rf"need {N} from {N} overs", _pair),
    (rf"(?:scoring|Nothing for \S+), from {N} balls?", lambda b, n: _is([0, int(n)], _out(b)[:2])),
    (
        rf"bowled out for {N}|last wicket falls at {N}|innings is over at {N}",
        lambda b, *n: _is((int(next(filter(None, n))), b.wickets), (b.runs, 10)),
    ),
    (
        rf"(?:had|made|gone for|goes for) {N} from {N} balls?",
        lambda b, r, n: _is([int(r), int(n)], _out(b)[:2]),
    ),
    (rf"{N} from {N} balls? (?:was all|for )", lambda b, r, n: _is([int(r), int(n)], _out(b)[:2])),
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
    (
        rf"{N} wickets in (?:the over|it)|over with {N} wickets|That is {N} in this over",
        lambda b, *n: _lost_over(b, next(filter(None, n))),
    ),
    (
        r"2 (sixes|fours) running",
        lambda b, what: _is((b.row, b.data["bat"]), (2, 6 if what == "sixes" else 4)),
    ),
    (rf"(?:for|waited) {N} balls", lambda b, n: _is(int(n), b.waited_before)),
    (rf"stand of {N}|partnership was worth {N}", lambda b, n, m: _is(int(n or m), b.ended_stand[0])),
    (rf"{N} sixes", lambda b, n: _is(int(n), b.bat[b.data["striker"]][3])),
    (rf"has {N} now", lambda b, n: _is(int(n), _bowler(b)[1])),
    (rf"{N} metres", lambda b, n: "" if int(n) <= 63 else "not short"),
    (rf"{N} wickets? in hand", _hand),
    (rf"will take {N} runs? an over all day", _taken),
    (
        r"([\d.]+) an over from here|need ([\d.]+) from here|comes down to (\d+\.\d)"
        r"|([\d.]+) an over (?:wins it|will do|is asked)",
        lambda b, *n: _required(b, next(filter(None, n))),
    ),
    (
        r"(?:going at|gone at|keeps .*? at) ([\d.]+)(?: an over)?|([\d.]+) an over so far"
        r"|far it has been ([\d.]+\d)|on the board, ([\d.]+) an over",
        lambda b, *n: _current(b, next(filter(None, n))),
    ),
    (r"([\d.]+\d) an over", _rate),
    (
        rf"from {N} % to {N} %|were at {N} % before that over\. They are at {N} % now",
        lambda b, *n: _chance(b, *[one for one in n if one]),
    ),
    (
        rf"(?:go|up) from {N} to {N} in 100|had {N} chances in 100, now {N}"
        rf"|turns: {N} in 100 for .*? before that, {N} after",
        lambda b, *n: _chance(b, *[one for one in n if one]),
    ),
    (
        rf"^{N} (?:for|to|partnership for) .*?(?:, off| in) {N} balls?|reaches {N}, off {N} balls?"
        rf"|have put on {N}, off {N} balls?",
        lambda b, *n: _milestone(b, *[one for one in n if one]),
    ),
    (rf"^{N} up for|reach {N}\.|^{N} on the board for", lambda b, *n: _team_total(b, next(filter(None, n)))),
    (r"^5 wickets for", lambda b: _is(_bowler(b)[1] if "bowler" in b.data else b.bowl[b.data["name"]][1], 5)),
    (
        rf"End of over {N}|[Aa]fter {N} overs?|{N} overs? gone",
        lambda b, *n: _is(int(next(filter(None, n))), b.over_bowled),
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
    (rf"(?:conceded) {N} runs?", lambda b, n: _is(int(n), _bowler(b)[0])),
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
    (rf"[Gg]one for {N}|had {N}\b", lambda b, *n: _is(int(next(filter(None, n))), _out(b)[0])),
    (r"6 balls and not a run", lambda b: _is(b.over_dear, 0)),
    (r"(?i)1 ball away|1 more for a maiden", lambda b: ""),
    (r"[Tt]he next 1 is a free hit", lambda b: "" if b.data["free_hit_next"] else "no free hit"),
    (rf"^{N} needed", lambda b, n: _is(int(n), b.need)),
)


_ROLES: Final[tuple[tuple[str, str], ...]] = (
    (r"^(?:Free hit\. )?(NAME) to (?:NAME):", "bowler"),
    (r"^(?:Free hit\. )?(?:NAME) to (NAME)[:,]", "striker"),
    (r"(?:hat-trick for|A \w+ wicket for|is a \w+ for|wickets in \d balls for) (NAME)", "bowler"),
    (
        r"(NAME) (?:is on a hat-trick|answers back|has the last word|went for the wicket"
        r"|will bowl for|has \d now|oversteps|strays|concedes|beats the (?:bat|swing)"
        r"|gives nothing|wins that|knocks over|gets through|goes for four|is hit for six)",
        "bowler",
    ),
    (r"(?:leg before to|chips it back to|Back to|wide from|dot from|No-ball from|\b[Oo]ff) (NAME)", "bowler"),
    (
        r"(NAME) (?:is off the mark|is under way|takes (?:one|the run)|picks up|cannot|defends"
        r"|blocks|plays|swings|leaves|lets it|misses out|is hit on the pad,? no|waits|keeps"
        r"|finds the (?:rope|fielder)|clears|hits it|beats the field|runs hard|gets two)",
        "striker",
    ),
    (
        r"(?:single for|One run to|run to|Just one for|Two for|Three for|couple to|[Ff]our to"
        r"|runs to|Six to) (NAME)",
        "striker",
    ),
    (
        r"(NAME) (?:is OUT|is Out|is out|has to go|hears|misses and|is beaten|goes lbw"
        r"|is hit on the pad and|has trodden|holes out|picks out|finds (?=NAME at)|feathers"
        r"|is stumped|is run out|is short|goes for the big|goes for \d|had \d|looked set|was asked)",
        "out",
    ),
    (
        r"(?:edge from|in the air by|through|Through|cost them|for) (NAME)(?='s defences|, and|\. OUT|\.$|:)",
        "any",
    ),
    (
        r"(NAME) (?:holds|settles|takes (?:it|the catch)|makes no|clings|the keeper does"
        r"|has the bails|is on to it|does the work|the fielder|is there at)",
        "fielder",
    ),
    (r"(?:by|to|finds|picks out) (NAME)(?= at | behind|\. OUT|, lovely)", "fielder"),
)


def _read_names(book: Book, text: str) -> Iterator[str]:
    """Check that every player named has the part that the line gives."""
    known = {surname(name) for name in book.players}
    said = {name for name in known if re.search(rf"\b{re.escape(name)}\b", text)}
    data = book.data
    if book.kind == "ball_bowled":
        parts = {
            part: surname(data[part])
            for part in ("striker", "non_striker", "bowler", "out", "fielder")
            if data[part]
        }
        allowed = set(parts.values())
        yield from (f"{name} had no part in it" for name in said - allowed)
        name = "|".join(re.escape(one) for one in sorted(known, key=len, reverse=True))
        for pattern, part in _ROLES:
            for found in re.finditer(pattern.replace("NAME", name), text):
                wanted = (
                    {parts.get("striker"), parts.get("out"), parts.get("bowler")}
                    if part == "any"
                    else {parts.get(part)}
                )
                if part in ("bowler", "any") and found[0].startswith(("Back to", "for ")):
                    wanted |= {parts.get("bowler"), parts.get("out")}
                if found[1] not in wanted:
                    yield f"{found[1]} is not the {part}"
        return
    if book.kind == "over_completed":
        allowed = {
            surname(one) for one in (data["bowler"]["name"], data["striker"], data["non_striker"]) if one
        }
        batting = re.search(r"(\S+) (?:has \d+ from|is \d+ not out)|about (\S+) now", text)
        if batting and (batting[1] or batting[2]) == surname(data["bowler"]["name"]):
            yield "the bowler is not batting"
        bowling = re.search(
            r"(\S+?)(?:'s figures| has (?:now conceded|(?:none|[a-z]+) for)| gives them| is hard)", text
        )
        if bowling and bowling[1] in known - {surname(data["bowler"]["name"])}:
            yield "the batter is not bowling"
    elif book.kind in ("batter_selected", "wicket_fell"):
        allowed = {
            surname(data["player"]["name"]),
            *(surname(data.get(one) or "") for one in ("striker", "non_striker", "bowler", "fielder")),
        }
    elif book.kind == "bowler_selected":
        allowed = {surname(data["bowler"]["name"])}
    elif book.kind == "milestone_reached":
        allowed = {surname(data["name"]), *(surname(part) for part in data["name"].split(" and "))}
    elif book.kind == "innings_ended":
        best = max(line[0] for line in book.bat.values())
        allowed = {surname(one) for one, line in book.bat.items() if line[0] == best}
        most = max((line[1] for line in book.bowl.values()), default=0)
        allowed |= {surname(one) for one, line in book.bowl.items() if line[1] == most}
    else:
        return
    yield from (f"{name} had no part in it" for name in said - allowed)


_RESULTS: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    (r"\bSIX\b", (6,)),
    (r"\bFOUR\b", (4,)),
    (r"(?<!no )(?<!No )\b(?:single|jog 1|easy 1|just the 1|1 run\b|take the single)", (1,)),
    (r"\b(?:couple|2 runs\b|back for the second|come back|2 to the total)", (2,)),
    (r"they run 3|3 runs\b", (3,)),
    (r"no run\b|dot ball|not a run|nothing there|no single", (0,)),
)


def _read_result(ball: Data, text: str) -> Iterator[str]:
    """Check the result called against the ball."""
    if ball["dismissal"]:
        if not re.search(r"\bOUT\b|\bOut[!.]|\bis out\b|and out!|^Out", text):
            yield "a wicket without a word"
        return
    if re.search(r"\bOUT\b", text):
        yield "nobody is out"
    for pattern, runs in _RESULTS:
        if re.search(pattern, text) and not ball["extras"] and ball["bat"] not in runs:
            yield f"{pattern} off a ball for {ball['bat']}"
    if ball["wides"] and "ide" not in text:
        yield "a wide without a word"


_EDGY: Final = r"\bedged|the (?:inside )?edge\b"
_LENGTHS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (r"full toss,|on the full", ("full toss",)),
    (r"yorker(?: and|[,.])|blockhole|very full|right up to the bat|wide yorker", ("yorker",)),
    (r"(?<!very )(?<!on the )\bfull(?: and|, (?!toss))|pitched up|tossed up", ("full",)),
    (r"good length,|(?<!back of )(?<!short of )\ba length, ", ("good",)),
    (
        r"back of a length|just short of a length|a shade short|hit into the pitch|pushed through",
        ("back of a length",),
    ),
    (r"(?<!a shade )(?<!just )\bshort(?: and|,)|banged in|dragged down", ("short",)),
)
_LINES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        r"wide of off stump|well outside off|and wide\b|wide yorker(?!, outside)|well wide of",
        ("wide outside off",),
    ),
    (
        r"(?<!well )outside off[,.]|the channel|the corridor|off-stump line|stumps wide|inviting the drive",
        ("outside off",),
    ),
    (
        r"on the stumps|(?:length|toss|yorker), straight|and straight|blockhole|right up to the bat"
        r"|at the body|banged in short",
        ("stumps",),
    ),
    (r"on the pads|on leg stump|at the toes|at the feet|at the hip|into the ribs", ("leg",)),
)
_PLACES: Final[tuple[tuple[str, tuple[int, ...]], ...]] = (
    (r"fine on the leg side|fine leg|round the corner", (1,)),
    (r"behind square on the leg side|backward of square|towards square leg", (2,)),
    (r"midwicket|into the leg side|wide of mid-on", (3,)),
    (r"on the leg side(?<!fine on the leg side)(?<!square on the leg side)|long-on|towards mid-on", (4,)),
    (r"(?:ground|bowler) on the off side|long-off|towards mid-off", (5,)),
    (r"covers|extra cover|towards cover|into the off side|wide of mid-off", (6,)),
    (r"\bpoint\b|square on the off side", (7,)),
    (r"fine on the off side|third\b(?! six)|behind the wicket on the off side", (8,)),
    (r"back towards the bowler", (4, 5)),
)
_STROKES: Final[tuple[tuple[str, str, str], ...]] = (
    # words, shots (regex), lengths (regex)
    (r"\bpulled\b", r"pull", r"short|back"),
    (r"\bhooked\b", r"hook", r"short|back"),
    (r"\bdriven|stroked\b", r"drive", r"f|g"),
    (r"\bpushed(?! through| off)|eased|nudged\b", r"push|defend", r"f|g|yorker"),
    (r"\bpunched\b", r"push|drive", r"short|back"),
    (r"\bcut\b(?! off)|slashed", r"cut", r"short|back|good"),
    (r"\bflicked|whipped|clipped\b", r"flick", r"f|g|yorker"),
    (r"\bswept\b|reverse-swept", r"sweep", r"."),
    (r"\blofted|launched|lifted\b(?! out)", r"loft", r"f|g|yorker"),
    (r"\bslogged|heaved|swung away\b", r"slog", r"."),
    (r"\bscooped\b", r"scoop", r"f|g|yorker"),
    (r"\bramped\b", r"scoop", r"."),
    (r"\bguided\b|run off the face", r"guide", r"."),
    (r"\bglanced|tickled\b", r"glance", r"."),
    (r"\bdug out|jammed\b", r"push|drive", r"yorker"),
    (r"\bupper-cut\b", r"upper cut", r"short|back"),
    (r"\blate cut|dabbed late\b", r"late cut", r"good|short|back"),
    (r"\bworked across|turned\b", r"work", r"f|g|yorker"),
    (r"\btucked|off the hip\b", r"flick", r"short|back"),
    (r"\bflat-batted\b", r"pull|loft", r"short|back"),
)
_NEVER: Final = (
    r"banged in short, in the channel",
    r"(?:pulled|dabbed)[^,.]* (?:down the ground|past the bowler|towards long)",
    r"a ball to the bowler",
    r"pressure is off",
    r"cannot afford many",
    r"field of their own",
    r"batsm[ae]n",
    r"\{|\}|None(?! for)|  ",
)


def _read_strokes(ball: Data, text: str) -> Iterator[str]:
    """Check length, line, direction and stroke, and that they agree."""
    call = text.partition(": ")[2] if re.match(r"(?:Free hit\. )?[^:]* to [^:]*: ", text) else text
    if ball["dismissal"]:
        return
    if ball["wides"] and re.search(r"on the pads|on leg stump|down leg", call) and ball["line"] != "leg":
        yield "the wide was not down leg"
    asked = re.search(r"(?:The plan was|They asked for|Meant to be) (.*?)[;,]", call)
    if (
        asked
        and asked[1].split()[-1]
        not in f"{ball['intents']['length']} full length {ball['intents']['length']} ball"
    ):
        yield f"the plan was {ball['intents']['length']}"
    described = re.sub(r"(?:The plan was|They asked for|Meant to be) .*?[.]", "", call).lower()
    for name, table in (("length", _LENGTHS), ("line", _LINES)):
        for pattern, allowed in table:
            if not ball["wides"] and re.search(pattern, described) and ball[name] not in allowed:
                yield f"{pattern}: the {name} was {ball[name]}"
    if ball["zone"] is not None and (ball["bat"] or not ball["extras"]):
        zones = {zone for pattern, allowed in _PLACES for zone in allowed if re.search(pattern, described)}
        if zones and ball["zone"] not in zones:
            yield f"it went to sector {ball['zone']}"
    edged = ball["contact"] == "edged"
    if ball["bat"] and bool(re.search(_EDGY, described)) and not edged:
        yield "no edge"
    if ball["zone"] is not None and ball["shot"] != "none" and not ball["wides"]:
        length = "full" if ball["length"] == "full toss" else ball["length"]
        for words, shots, lengths in _STROKES:
            if re.search(words, described) and not (
                re.search(shots, ball["shot"]) and re.search(rf"^(?:{lengths})", length)
            ):
                yield f"{words} of a {ball['shot']} at a {ball['length']} ball"


_JUDGEMENTS: Final[tuple[tuple[str, Any], ...]] = (
    (
        r"not possible|cannot be done|puts it out of reach|over as a contest|over in all but name"
        r"|cannot get there",
        lambda b: b.need is not None and b.left > 0 and b.need > 6 * b.left + 6,
    ),
    (
        r"[Oo]nly (?:a no-ball|an extra)",
        lambda b: b.need is not None and 6 * b.left < b.need <= 6 * b.left + 6,
    ),
    (
        r"in their hands|well placed|plenty in hand|should not matter|costs .* little",
        lambda b: b.need is not None and 0 < b.need and b.strain() <= 0.95,
    ),
    (r"ahead of it|on course|wins it, with", lambda b: b.need is not None and b.strain() <= 1.2),
    (
        r"in trouble|that is a lot|something special|long way off|need luck|have the better of it"
        r"|did not need that",
        lambda b: b.need is not None and b.strain() >= 1.0,
    ),
    (
        r"could go either way|It is on\b|Nothing in it",
        lambda b: b.need is not None and 0.4 <= b.strain() <= 1.8,
    ),
    (
        r"rate comes down|over .* needed: ",
        lambda b: b.need is not None and b.over_runs * (b.left + 6) > 6 * (b.need + b.over_runs),
    ),
    (r"all day|dear one|is .*'s over", lambda b: b.need is None and b.over_runs >= 14),
    (r"[Oo]nly \d+ runs?:|A tight one|hard to get away|nothing to hit", lambda b: b.over_runs <= 3),
    (r"in this game is worth|in a short game", lambda b: b.overs <= 20 and b.over_dear == 0),
    (r"Nothing off .* at all|^A maiden: |a maiden, |a wicket maiden", lambda b: b.over_dear == 0),
    (r"hat-trick (?:for|!)|It is a hat-trick|A hat-trick: ", lambda b: b.hunt[b.data["bowler"]] == 3),
    (r"on a hat-trick when|hat-trick ball to come", lambda b: b.hunt[b.data["bowler"]["name"]] == 2),
    (r"is on a hat-trick|bowl for a hat-trick", lambda b: b.hunt[b.data["bowler"]] == 2),
    (r"is back, on a hat-trick", lambda b: b.hunt[b.data["bowler"]["name"]] == 2),
    (
        r"No hat-trick|hat-trick ball comes to nothing",
        lambda b: b.hunt_before >= 2 and b.hunt[b.data["bowler"]] == 0,
    ),
    (r"Back-to-back sixes", lambda b: b.row == 2 and b.data["bat"] == 6),
    (r"Back-to-back fours", lambda b: b.row == 2 and b.data["bat"] == 4),
    (
        r"maiden is one ball away|One more for a maiden|1 more for a maiden",
        lambda b: b.over_dear == 0 and b.over_deliveries == 5,
    ),
    (r"off the mark|is under way|Off the mark", lambda b: b.bat[b.data["striker"]][0] == b.data["bat"] > 0),
    (r"Gone first ball|First ball!|first-ball duck", lambda b: _out(b)[:2] == [0, 1]),
    (r"A duck|Out without scoring", lambda b: _out(b)[0] == 0),
    (r"that wins it|the match\.|are home", lambda b: b.need is not None and b.need <= 0),
    (
        r"not enough|fall short",
        lambda b: b.need is not None and b.need > 1 and (not b.left or b.wickets >= 10 or b.super_over),
    ),
    (r"Scores level", lambda b: b.need == 1),
    (r"need a partnership|bat through|lose another soon", lambda b: b.wickets >= 3),
    (r"That keeps|on the board, ", lambda b: True),
    (r"first boundary for|had waited", lambda b: b.row >= 1),
    (r"ends a run of|dots, and then that", lambda b: b.row >= 1),
    (r"Plumb|hears the timber|Castled|Bowled!", lambda b: b.data["dismissal"] in ("bowled", "lbw")),
)


def _read_judgements(book: Book, text: str) -> Iterator[str]:
    for pattern in _NEVER:
        if re.search(pattern, text):
            yield f"never said: {pattern}"
    for pattern, holds in _JUDGEMENTS:
        if re.search(pattern, text) and not holds(book):
            yield f"{pattern!r} does not hold"
    for nth, what in re.findall(r"\b([a-z]+) (six\b|wicket for|for [A-Z])", text):
        if nth in _ORDINAL and book.kind == "ball_bowled":
            line = book.bat[book.data["striker"]][3] if what == "six" else _bowler(book)[1]
            if line != _ORDINAL[nth]:
                yield f"not the {nth}"
    if (
        book.need is not None
        and book.left
        and book.need > 6 * book.left
        and re.search(r"\d needed from", text)
    ):
        if book.need > 6 * book.left + 6:
            yield "an equation that cannot be met"
    if book.kind == "over_completed":
        for runs in re.findall(r"(?<!conceded )\b(\d+) runs?\b", re.sub(r"take \d+ runs? an over", "", text)):
            if int(runs) != book.over_runs and f"conceded {runs}" not in text:
                yield f"the over had {book.over_runs} runs"
        for wickets in re.findall(r"and (\d+) wickets?\b", text):
            if int(wickets) != book.over_wickets:
                yield f"the over had {book.over_wickets} wickets"
