"""Cricket notation as it is read aloud: scores, overs, figures and shorthand."""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match
from typing import Final

_UNITS: Final = (
    "nought one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS: Final = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()

_SHORTHAND: Final = {
    "RRR": "required rate",
    "CRR": "current rate",
    "NRR": "net run rate",
    "RR": "run rate",
    "SR": "strike rate",
    "DLS": "D L S",
    "LBW": "leg before",
    "lbw": "leg before",
    "DRS": "D R S",
    "PP": "powerplay",
    "c & b": "caught and bowled",
    "econ": "economy",
}


def number_in_words(number: int) -> str:
    """Return a whole number in words, ``0`` as nought; from a million on in figures.

    Args:
        number: 0 or more.
    """
    if number >= 1_000_000:
        return str(number)
    if number >= 1000:
        return _joined(f"{number_in_words(number // 1000)} thousand", number % 1000)
    if number >= 100:
        return _joined(f"{_UNITS[number // 100]} hundred", number % 100)
    if number < 20:
        return _UNITS[number]
    tens, unit = _TENS[number // 10], number % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


def _joined(head: str, rest: int) -> str:
    if not rest:
        return head
    return f"{head} and {number_in_words(rest)}" if rest < 100 else f"{head} {number_in_words(rest)}"


def spoken(text: str) -> str:
    """Return a line of commentary as it is read aloud.

    ``45/3`` becomes "forty-five for three", ``6.2 overs`` "six point two overs", ``4-0-27-2`` "two for
    twenty-seven from four overs", ``c Smith b Jones`` "caught Smith, bowled Jones", ``RRR`` "required rate".
    Unknown text stays unchanged.

    >>> spoken("45/3 after 6.2 overs, RRR 8.5")
    'forty-five for three after six point two overs, required rate eight point five'
    """
    starts = {place for place, part in enumerate(_SENTENCE_END.split(text)) if part[:1].isdigit()}
    for pattern, say in _RULES:
        text = pattern.sub(say, text)
    parts = _SENTENCE_END.split(text)
    return "".join(
        part[:1].upper() + part[1:] if place and place in starts else part for place, part in enumerate(parts)
    )


def _n(text: str) -> str:
    return number_in_words(int(text))


def _wickets(text: str) -> str:
    return "none" if text == "0" else "all out" if text == "10" else _n(text)


def _score(found: Match[str]) -> str:
    runs, wickets = found["runs"], found["wickets"]
    return f"{_n(runs)} all out" if wickets == "10" else f"{_n(runs)} for {_wickets(wickets)}"


def _overs_bowled(text: str) -> str:
    whole, _, balls = text.partition(".")
    if not balls or balls == "0":
        return f"{_n(whole)} {'over' if whole == '1' else 'overs'}"
    return f"{_n(whole)} point {_n(balls)} overs"


def _figures(found: Match[str]) -> str:
    maidens = int(found["maidens"])
    said = f"{_wickets(found['wickets'])} for {_n(found['runs'])} from {_overs_bowled(found['overs'])}"
    if not maidens:
        return said
    return f"{said}, {number_in_words(maidens)} {'maiden' if maidens == 1 else 'maidens'}"


def _innings(found: Match[str]) -> str:
    parts = [f"{_n(found['runs'])} off {_n(found['balls'])} {'ball' if found['balls'] == '1' else 'balls'}"]
    parts += [_hits(count, kind) for count, kind in re.findall(r"(\d+)x([46])", found["hits"] or "")]
    return ", ".join(parts)


def _hits(count: str, kind: str) -> str:
    name = "four" if kind == "4" else "six"
    return f"{_n(count)} {name if count == '1' else {'four': 'fours', 'six': 'sixes'}[name]}"


def _decimal(found: Match[str]) -> str:
    whole, _, parts = found[0].partition(".")
    return f"{_n(whole)} point {' '.join(_n(digit) for digit in parts)}"


def _dismissed(found: Match[str]) -> str:
    fielder = "the keeper, " * bool(found["keeper"]) + found["fielder"]
    return f"{'stumped' if found['how'] == 'st' else 'caught'} {fielder}, bowled {found['bowler']}"


def _whole(found: Match[str]) -> str:
    return _n(found[0])


_SENTENCE_END: Final = re.compile(r"(?<=[A-Za-z0-9)%][.!?] )")
_NAME: Final = r"[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*)*"

_RULES: Final[tuple[tuple[re.Pattern[str], str | Callable[[Match[str]], str]], ...]] = (
    (re.compile(r"(?<=\d)\s?%"), " per cent"),
    (re.compile(r"(?<=\d per cent)[-\u2013](?=\d)"), " to "),
    (re.compile(r"(?<![\w.-])(\d+)[-\u2013](\d+)(?![\w.-])"), r"\1 to \2"),
    (re.compile(r"(?<![\w.])\.(?=\d)"), "0."),
    (re.compile(r"(?<![\w.,)\]-])[-\u2212](?=\d)"), "minus "),
    (re.compile(r"(?<![\w.,)\]+])\+(?=\d)"), "plus "),
    (re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])"), lambda found: _n(found[0].replace(",", ""))),
    (re.compile(r"\bc & b (?P<bowler>" + _NAME + ")"), r"caught and bowled \g<bowler>"),
    (re.compile(rf"\b(?P<how>c|st) (?P<keeper>†)?(?P<fielder>{_NAME}) b (?P<bowler>{_NAME})"), _dismissed),
    (re.compile(rf"\blbw b (?P<bowler>{_NAME})"), r"leg before to \g<bowler>"),
    (re.compile(rf"\bhit wicket b (?P<bowler>{_NAME})"), r"hit wicket, bowled \g<bowler>"),
    (re.compile(rf"\brun out \(†?(?P<fielder>{_NAME})\)"), r"run out by \g<fielder>"),
    (re.compile(rf"(?<=[a-z] )b (?P<bowler>{_NAME})"), r"bowled \g<bowler>"),
    (
        re.compile(r"(?P<overs>\d+(?:\.[0-5])?)-(?P<maidens>\d+)-(?P<runs>\d+)-(?P<wickets>\d{1,2})\b(?!-)"),
        _figures,
    ),
    (re.compile(r"(?P<runs>\d+)\*? \((?P<balls>\d+)b?(?P<hits>(?: \d+x[46])*)\)"), _innings),
    (
        re.compile(r"\b(?P<runs>\d+)(?:/| for )(?P<wickets>10|\d)\b(?![./]\d)(?= from| after|[.,;:!?)]|$| )"),
        _score,
    ),
    (re.compile(r"\b(?P<count>\d+)x(?P<kind>[46])\b"), lambda found: _hits(found["count"], found["kind"])),
    (re.compile(r"\b4s\b"), "fours"),
    (re.compile(r"\b6s\b"), "sixes"),
    (re.compile(r"\b\d+\.\d+\b"), _decimal),
    (
        re.compile("|".join(rf"(?<!\w){re.escape(short)}(?!\w)" for short in _SHORTHAND)),
        lambda found: _SHORTHAND[found[0]],
    ),
    (re.compile(r"\bNo\. (?=\d)"), "number "),
    (re.compile(r"(?<![\w.-])\d{1,4}(?![\w.-]*\d)(?!\w)"), _whole),
    (re.compile(r"[†*]"), ""),
    (re.compile(r"(?<=[a-z0-9,:] )(?:SIX|FOUR|OUT|LBW)\b"), lambda found: found[0].lower()),
    (re.compile(r"\b(?:SIX|FOUR|OUT|LBW)\b"), lambda found: found[0].capitalize()),
)
