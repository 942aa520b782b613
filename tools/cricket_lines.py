"""Read cricket commentary against a scorebook kept from the raw events.

:func:`faults` reads one line about the last event and returns what the book contradicts: numbers, names,
equations, judgements of the rate, milestones, streaks, strokes, lengths and places. A number that no claim
explains is a fault too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tools.cricket_book import Book, Data, bowler_of, dismissed, read_claims

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


def faults(book: Book, text: str, *, answer: bool = False) -> list[str]:
    """Return what a scorebook contradicts in a line about its last event.

    Args:
        answer: Whether the second commentator says it.
    """
    plain = in_figures(text.replace("OUT! 1st", ""))
    found = [*read_claims(book, plain), *_read_names(book, text), *_read_judgements(book, plain)]
    if book.kind == "ball_bowled" and not answer and not text.startswith("The powerplay"):
        found += [*_read_result(book.data, plain), *_read_strokes(book.data, text)]
    return found


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
    (r"Gone first ball|First ball!|first-ball duck", lambda b: dismissed(b)[:2] == [0, 1]),
    (r"A duck|Out without scoring", lambda b: dismissed(b)[0] == 0),
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
            line = book.bat[book.data["striker"]][3] if what == "six" else bowler_of(book)[1]
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
