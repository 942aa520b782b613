"""The phrases of the commentary, and the choice of one that was not used recently.

No phrase can be false: it mentions the length, line, stroke or direction only if the event has it, and a
fielder only if there is one. :mod:`.commentary` and :mod:`.ball_commentary` fill the slots in braces. The
same event always gets the same phrase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from spectator.environments.world import derive_seed

Phrases = tuple[str, ...]

LENGTHS: Final[Mapping[str, Phrases]] = {
    "full toss": ("full toss", "on the full"),
    "yorker": ("yorker", "right in the blockhole"),
    "full": ("full", "pitched up"),
    "good": ("good length", "on a length"),
    "back of a length": ("back of a length", "just short of a length"),
    "short": ("short", "banged in short"),
}
SPIN_LENGTHS: Final[Mapping[str, Phrases]] = {
    "yorker": ("very full", "right up to the bat"),
    "full": ("full", "tossed up"),
    "short": ("short", "dragged down"),
}
"""Replacements when a spinner bowls."""

LINES: Final[Mapping[str, Phrases]] = {
    "wide outside off": ("wide of off stump", "well outside off"),
    "outside off": ("outside off", "in the channel outside off"),
    "stumps": ("on the stumps", "straight"),
    "leg": ("on the pads", "on leg stump"),
}

STROKES: Final[Mapping[str, Phrases]] = {
    "defend": ("dabbed", "blocked"),
    "push": ("pushed", "nudged", "eased"),
    "drive": ("driven", "driven hard", "stroked"),
    "straight drive": ("driven straight",),
    "cut": ("cut", "cut away", "slashed"),
    "late cut": ("late cut", "dabbed late"),
    "guide": ("guided", "steered"),
    "flick": ("flicked", "whipped", "clipped", "worked away"),
    "glance": ("glanced", "tickled"),
    "pull": ("pulled", "pulled away"),
    "hook": ("hooked",),
    "sweep": ("swept", "swept hard"),
    "reverse sweep": ("reverse-swept",),
    "loft straight": ("lofted", "lifted", "launched"),
    "loft cover": ("lofted inside out", "lofted"),
    "slog": ("slogged", "swung away", "heaved"),
    "scoop": ("scooped", "ramped"),
    "upper cut": ("upper-cut",),
    "work": ("worked across the line", "turned", "dragged round"),
}
"""Words by stroke; each is followed by the ball's direction."""

BACK_FOOT: Final[Mapping[str, Phrases]] = {
    "drive": ("punched", "punched off the back foot"),
    "straight drive": ("punched back",),
    "loft straight": ("flat-batted", "muscled"),
    "loft cover": ("slapped", "flat-batted"),
    "sweep": ("paddled", "helped"),
}
"""Replacements off a ball short of a length."""

FRONT_FOOT: Final[Mapping[str, Phrases]] = {
    "cut": ("sliced", "squeezed"),
    "late cut": ("squeezed", "steered"),
    "pull": ("hit across the line", "dragged"),
    "hook": ("hit across the line",),
}
"""Replacements off a full ball."""

EDGED: Final[Phrases] = ("off the edge", "edged")
INSIDE_EDGED: Final[Phrases] = ("inside-edged", "off the inside edge")
TOP_EDGED: Final[Phrases] = ("top-edged",)
"""Replacements for an edge: any, an inside edge to the leg side along the ground, and one in the air."""

WHERE: Final[tuple[Phrases, ...]] = (
    ("fine on the leg side", "towards fine leg"),
    ("behind square on the leg side", "backward of square"),
    ("through midwicket", "into the leg side"),
    ("down the ground on the leg side", "past the bowler on the leg side"),
    ("down the ground on the off side", "past the bowler on the off side"),
    ("through the covers", "into the off side"),
    ("behind point", "backward of point"),
    ("fine on the off side", "towards third"),
)
"""Direction of the ball, by sector 1 to 8."""

OVER: Final[tuple[str, ...]] = (
    "over fine leg", "over backward square leg", "over midwicket", "over long-on",
    "over long-off", "over extra cover", "over point", "over third",
)  # fmt: skip

SIX: Final[Phrases] = (
    "SIX! {ball}{stroke} {over}.",
    "{ball}{stroke} {over}: that is a SIX!",
    "All the way! {ball}{stroke} {over} for SIX.",
    "{ball}{stroke} {over}, up, up and gone. SIX!",
    "{ball}{stroke} {over} and out of sight. SIX!",
    "Hit hard and hit high, {ball}{stroke} {over} for SIX.",
    "{ball}{stroke} {over}, into the crowd: SIX!",
    "That has gone the distance, {ball}{stroke} {over}. SIX.",
    "SIX runs, {ball}{stroke} {over} without a doubt.",
)
SIX_CLEAN: Final[Phrases] = (
    "That is huge! {ball}{stroke} {over}, clean as you like: SIX.",
    "{ball}{stroke} {over}, it never looked like landing: SIX.",
)
"""For a six that was middled."""
SIX_AGAIN: Final[Phrases] = ("SIX more, {ball}{stroke} {over}.",)
"""For a batter who has hit a six before."""
FOUR: Final[Phrases] = (
    "{ball}{stroke} {where} for FOUR.",
    "FOUR! {ball}{stroke} {where}.",
    "{ball}{stroke} {where}, nobody gets there: FOUR.",
    "{ball}{stroke} {where} and it beats the field for FOUR.",
    "FOUR, {ball}{stroke} {where} to the rope.",
    "{ball}{stroke} {where}, away it races for FOUR.",
    "{ball}{stroke} {where}, no need to run: FOUR.",
    "A boundary! {ball}{stroke} {where}, FOUR runs.",
    "{ball}{stroke} {where}, the dive is in vain. FOUR.",
)
FOUR_CLEAN: Final[Phrases] = (
    "{ball}{stroke} {where}: a FOUR from the moment it left the bat.",
    "Lovely. {ball}{stroke} {where} for FOUR.",
)
FOUR_AGAIN: Final[Phrases] = ("FOUR more, {ball}{stroke} {where}.",)
ONE: Final[Phrases] = (
    "{ball}{stroke} {where} for a single.",
    "{ball}{stroke} {where}, one.",
    "{ball}{stroke} {where}, they take a single.",
    "{ball}{stroke} {where} and they trot one.",
    "{ball}{stroke} {where} and they are through for one.",
    "{ball}{stroke} {where}, one to the total.",
    "{ball}{stroke} {where} and they change ends.",
    "{ball}{stroke} {where}, an easy run.",
    "{ball}{stroke} {where}, just the one.",
    "{ball}{stroke} {where}, quickly run.",
    "{ball}{stroke} {where} for one more.",
    "{ball}{stroke} {where}, they amble through.",
    "{ball}{stroke} {where} and there is a run in it.",
    "{ball}{stroke} {where} to keep the strike turning over.",
    "{ball}{stroke} {where}, called early, completed with ease.",
)
TWO: Final[Phrases] = (
    "{ball}{stroke} {where}, back for the second.",
    "{ball}{stroke} {where} for two.",
    "{ball}{stroke} {where}, a couple.",
    "{ball}{stroke} {where}, good running, two.",
    "{ball}{stroke} {where}, and they come back for two.",
    "{ball}{stroke} {where}, two more to the total.",
    "{ball}{stroke} {where}: two, and well judged.",
    "{ball}{stroke} {where}, the arm is tested and they get two.",
)
THREE: Final[Phrases] = (
    "{ball}{stroke} {where}, they run three.",
    "{ball}{stroke} {where} and three are there.",
    "{ball}{stroke} {where}, pulled in short of the rope: three.",
)
OVERTHROWS: Final[Phrases] = ("{ball}{stroke} {where}, and the throw runs away to the rope: {runs} in all.",)
MORE: Final[Phrases] = ("{ball}{stroke} {where}, they run {runs}.",)

DOT_PLAYED: Final[Phrases] = (
    "{ball}{stroke} {where}, no run.",
    "{ball}{stroke} {where}, nothing there.",
    "{ball}{stroke} {where}, cut off.",
    "{ball}{stroke} {where}, fielded.",
    "{ball}{stroke} {where} and a fielder is there.",
    "{ball}{stroke} {where}, stopped.",
    "{ball}{stroke} {where} and no single on offer.",
    "{ball}{stroke} {where}, gathered cleanly.",
    "{ball}{stroke} {where} without reward.",
    "{ball}{stroke} {where}: they think about it and stay.",
    "{ball}{stroke} {where}, well fielded.",
    "{ball}{stroke} {where}, sent back.",
)
DOT_DEFENDED: Final[Phrases] = (
    "{ball}defended.",
    "{ball}blocked, no run.",
    "{ball}kept out.",
    "{ball}met with a straight bat.",
    "{ball}patted back.",
    "{ball}dead-batted.",
    "{ball}blocked with soft hands.",
    "{ball}solid in defence.",
    "{ball}played with care.",
)
DOT_MISSED_WIDE: Final[Phrases] = (
    "{ball}plays and misses.",
    "{ball}beaten!",
    "{ball}past the edge.",
    "{ball}no contact.",
    "{ball}goes past the bat.",
    "{ball}too good for the bat.",
)
DOT_SWUNG: Final[Phrases] = ("{ball}a swing and a miss.", "{ball}fresh air.")
"""For a miss that was not a block."""
DOT_LEFT: Final[Phrases] = (
    "{ball}left alone.",
    "{ball}allowed to go by.",
    "{ball}watched through to the keeper.",
    "{ball}arms lifted out of the way.",
    "{ball}no stroke offered.",
)
DOT_PLAIN: Final[Phrases] = (
    "{ball}no run.",
    "{ball}nothing off it.",
    "{ball}dot ball.",
    "{ball}not a run in it.",
    "{ball}nothing doing.",
    "{ball}quiet ball.",
    "{ball}no score.",
    "{ball}a ball to the bowler.",
)

WIDE_LEG: Final[Phrases] = (
    "down the leg side, wide.",
    "strays down leg: wide called.",
    "sliding down leg, and the arms go out: wide.",
    "off target down leg: wide.",
    "down leg, an extra run for nothing: wide.",
)
WIDE_OFF: Final[Phrases] = (
    "too far outside off, wide.",
    "out of reach outside off: wide.",
    "beyond the tramline: wide.",
    "too wide to reach: wide.",
)
WIDE_OFF_SPIN: Final[Phrases] = ("floated away outside off: wide.",)
"""Additional phrases when a spinner bowls."""
WIDE_HIGH: Final[Phrases] = (
    "too high, over the head: wide.",
    "sails over: wide.",
    "above head height, called wide.",
)
WIDE_PLAIN: Final[Phrases] = (
    "wide called.",
    "past the line: wide.",
    "a wide, and it must be bowled again.",
    "the radar is off: wide.",
    "wide, one for nothing.",
)
WIDES_RUN: Final[Phrases] = ("wide, and they run: {runs} in all.", "wide, past the keeper: {runs} in all.")
WIDES_FOUR: Final[Phrases] = ("wide, and it runs away to the rope: five wides.",)

NO_BALL: Final[Phrases] = (
    "No-ball!",
    "No-ball called!",
    "No-ball signalled!",
    "That is a No-ball!",
)
FREE_HIT_NEXT: Final[Phrases] = ("Free hit to come.", "The next one is a free hit.")
BYES: Final[Phrases] = (
    "past bat and keeper, {runs}.",
    "beats everybody, {runs}.",
    "missed by all, {runs}.",
    "slips through, {runs}.",
)
LEG_BYES: Final[Phrases] = (
    "off the pad, {runs}.",
    "into the pads and away, {runs}.",
    "off the body, {runs}.",
    "no bat on that, {runs}.",
    "deflected off the pad, {runs}.",
)

BOWLED: Final[Phrases] = (
    "OUT! Bowled! {out} hears the timber.",
    "Bowled! {out} is beaten and the stumps are broken. OUT!",
    "OUT! {bowler} knocks over the stumps, {out} has to go.",
    "OUT! Through {out}'s defences and into the stumps.",
    "OUT! Castled! {out} misses and {bowler} hits.",
    "Timber! {bowler} gets through {out}. OUT!",
)
LBW: Final[Phrases] = (
    "OUT! LBW! {out} is hit on the pad and the finger goes up.",
    "Huge appeal, and given! {out} is leg before. OUT!",
    "OUT! Trapped in front, {out} goes lbw.",
    "Plumb! {out} is OUT leg before to {bowler}.",
)
STUMPED: Final[Phrases] = (
    "OUT! Stumped! {out} is out of the crease and {fielder} has the bails off.",
    "{out} is stumped, lovely work by {fielder}. OUT!",
)
STUMPED_WIDE: Final[Phrases] = ("Wide, and OUT! {out} is stumped by {fielder} all the same.",)
HIT_WICKET: Final[Phrases] = ("OUT! Hit wicket! {out} has trodden on the stumps.",)
CAUGHT_BEHIND: Final[Phrases] = (
    "OUT! Edged and taken by {fielder} behind the stumps.",
    "A nick, and {fielder} the keeper does the rest. {out} is OUT.",
    "OUT! {out} feathers it and {fielder} takes the catch behind.",
    "OUT! A thin edge from {out}, and {fielder} is never going to drop that.",
)
CAUGHT_CLOSE: Final[Phrases] = (
    "OUT! Edged and {fielder} holds it at {position}.",
    "A thick edge, and {fielder} at {position} clings on. {out} is OUT.",
)
CAUGHT_RING: Final[Phrases] = (
    "OUT! Straight to {fielder} at {position}.",
    "In the air, and {fielder} takes it at {position}. {out} is OUT.",
    "Mistimed, {fielder} at {position} makes no mistake. OUT!",
    "OUT! {out} picks out {fielder} at {position}.",
    "Chipped in the air by {out}, and {fielder} holds it at {position}. OUT!",
)
CAUGHT_DEEP: Final[Phrases] = (
    "OUT! {out} holes out to {fielder} at {position}.",
    "Up it goes, and {fielder} settles under it at {position}. {out} is OUT.",
    "Not enough on it: {fielder} takes the catch at {position}. OUT!",
    "In the air... and {fielder} is there at {position}. {out} has to go. OUT!",
    "High, and safe in the hands of {fielder} at {position}. OUT!",
)
CAUGHT_LOFTED: Final[Phrases] = ("OUT! {out} goes for the big one and finds {fielder} at {position}.",)
"""Additional phrases in the deep, off a stroke in the air."""
CAUGHT_AND_BOWLED: Final[Phrases] = (
    "OUT! Back to {bowler}, who holds on. Caught and bowled.",
    "Caught and bowled! {out} chips it back to {bowler}. OUT!",
)
RUN_OUT: Final[Phrases] = (
    "OUT! Run out! {fielder} is on to it and {out} is short.",
    "OUT! {out} is run out, {fielder} the fielder.",
    "A mix-up, and {out} is run out by {fielder}. OUT!",
    "OUT! {out} is run out! {fielder} does the work.",
)
RUN_OUT_NO_FIELDER: Final[Phrases] = ("OUT! Run out! {out} is short of the crease.",)
RUN_OUT_AGAIN: Final[Phrases] = (
    "They want one more, and {out} is run out by {fielder}. OUT!",
    "OUT! Pushing for another, {out} is short: run out by {fielder}.",
)
OTHER_OUT: Final[Phrases] = ("OUT! {out} is given out, {kind}.",)

COMES_IN: Final[Phrases] = (
    "{name} comes in at {score}.",
    "{name}, {hand}-handed, is the new batter at {score}.",
    "Next in is {name}, {score} on the board.",
    "{name} walks out at {score}.",
    "{score}, and here is {name}, {hand}-handed.",
    "In comes {name} with the score {score}.",
)
NEW_BOWLER: Final[Phrases] = (
    "{name} into the attack: {kind}.",
    "A first over for {name}, {kind}.",
    "{name} to bowl: {kind}.",
    "The ball goes to {name}, {kind}.",
    "{name}, {kind}, will have a go.",
)
SUPER_OVER_BOWLER: Final[Phrases] = (
    "{name} to bowl it: {kind}.",
    "The ball goes to {name}, {kind}.",
    "{name}, {kind}, is trusted with the super over.",
)
BACK_BOWLER: Final[Phrases] = (
    "{name} is back, {figures} so far.",
    "{name} again, with {figures}.",
    "{name} returns, {figures} to this point.",
    "Another from {name}, whose figures are {figures}.",
)

FIELD: Final[Phrases] = (
    "{team} set {field}.",
    "{team} go to {field}.",
    "A change in the field: {team} try {field}.",
    "{field} now for {team}.",
    "{team} move their fielders: {field}.",
)

ON_AIR: Final[Mapping[str, Phrases]] = {
    "dot": (
        "No run.",
        "{bowler} to {striker}, no run.",
        "A dot from {bowler}.",
        "{striker} cannot score.",
        "Nothing off that one.",
        "{bowler} keeps {striker} quiet.",
        "{striker}, no score.",
        "A tidy ball from {bowler}.",
        "Well bowled, no run.",
        "{striker} waits.",
        "A ball without a run.",
        "{bowler} wins that one.",
    ),
    "single": (
        "A single for {striker}.",
        "{striker} takes one.",
        "One more.",
        "{striker}, one.",
        "They run a single.",
        "{striker} works it away for one.",
        "One run to {striker}.",
        "{striker} turns over the strike.",
        "Just one for {striker}.",
        "A run to {striker}.",
        "One, and {striker} is happy with it.",
        "{striker} picks up a single.",
    ),
    "runs": (
        "{striker} gets {runs}.",
        "{runs} for {striker}.",
        "They come back, {runs}.",
        "{runs} more to {striker}.",
        "{striker} runs hard: {runs}.",
    ),
    "wide": ("A wide from {bowler}.", "Wide.", "{bowler} strays: wide.", "That is a wide."),
    "noball": ("A no-ball from {bowler}.", "No-ball."),
    "bye": ("Past everybody: {runs} to the extras.",),
    "legbye": ("Off the pad, {runs} to the extras.", "No bat in it: extras, {runs}."),
}
"""Spoken lines for a ball that was neither a boundary nor a wicket, by its result."""

ON_AIR_OTHER: Final[Phrases] = ("{runs} to the total.",)

SWING: Final[Phrases] = (
    "That swings it: {team} go from {before} to {after} in a hundred (simulated).",
    "A turning point: {team} had {before} chances in a hundred, now {after} (simulated).",
    "The match turns: {before} in a hundred for {team} before that, {after} after it (simulated).",
)


_SLOT: Final = re.compile(r"\{[a-z_]+\}")


class PhrasePicker:
    """Chooses a phrase not used recently, the same one for the same event.

    Args:
        data: The event's data, which determines where the choice starts.
        state: The viewers' state; its feed holds what was said.
        members: Members of a line in the feed that hold what was said.
    """

    def __init__(
        self, data: Mapping[str, Any], state: Mapping[str, Any], members: Sequence[str] = ("text", "radio")
    ) -> None:
        score = data.get("score")
        self._seed = score["runs"] if isinstance(score, Mapping) else 0
        self._facts = (
            data.get("innings", 0),
            data.get("at", ""),
            data.get("delivery", 0),
            str(data.get("striker", "")),
        )
        feed = state.get("feed", {})
        self._said = "\n".join(
            " ".join(feed[key].get(member, "") for member in members) for key in sorted(feed)
        ).lower()

    def pick(self, options: Sequence[str], *salt: str) -> str:
        """Return the first option, from the event's starting point, not used recently.

        If all were used, return the one used longest ago.
        """
        first = self.number(len(options), *salt)
        turned = [*options[first:], *options[:first]]
        for option in turned:
            if self.is_new(option):
                return option
        return min(turned, key=lambda option: self._said.rfind(fixed_part(option)))

    def number(self, below: int, *salt: str) -> int:
        """Return a number below ``below`` from the event's data, equal in every process."""
        return derive_seed(self._seed, *self._facts, *salt) % below

    def is_new(self, phrase: str) -> bool:
        """Check whether ``phrase`` was not used recently."""
        return fixed_part(phrase) not in self._said


@lru_cache(maxsize=2048)
def fixed_part(phrase: str) -> str:
    """Return the longest part of a phrase outside its slots, in lower case."""
    return max((part.strip(" ").lower() for part in _SLOT.split(phrase)), key=len)
