"""Estimate the tokens, money and time of an evaluation without asking a model.

Scripted captains play one match in the models' place. The prompts are those of a real match, word for word:
the model's own policy makes them. What an endpoint may have cached of a prompt is what it shares with the
prompt before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, Final

from spectator.clock import SystemClock
from spectator.environments.world import World, derive_seed
from spectator.evaluation.schedule import Schedule
from spectator.events import encode_json
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, ToolCall, Usage
from spectator.llm.endpoints import Price
from spectator.llm.tool_calls import REASON
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelBuild
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import ScriptedPolicy
from spectator.policies.recorded_endpoint import PATIENCE_S, at_once

TOKENS_A_CHARACTER: Final = 0.34
"""Tokens of a character of our prompts: on the high side, as JSON and figures have a third and prose less."""

_REASON: Final = 240
"""Characters of the reason that a scripted captain gives in the place of a model."""


@dataclass(slots=True)
class Rehearsal:
    """The expected requests of one seat in one match, in characters except ``calls`` and ``alike``.

    Args:
        calls: Questions.
        prompts: Characters of all prompts, tools included.
        known: How many of them stood at the beginning of the prompt before.
        answers: Characters of the answers.
        longest: Characters of the longest prompt.
        alike: Questions, but the first, of which nine tenths or more stood in the one before.
    """

    calls: int = 0
    prompts: int = 0
    known: int = 0
    answers: int = 0
    longest: int = 0
    alike: int = 0

    @property
    def tokens_in(self) -> int:
        """Tokens of all prompts, by :data:`TOKENS_A_CHARACTER`."""
        return round(self.prompts * TOKENS_A_CHARACTER)

    @property
    def cached_in(self) -> int:
        """How many of them an endpoint with a cache has at hand."""
        return round(self.known * TOKENS_A_CHARACTER)

    @property
    def tokens_out(self) -> int:
        """Tokens of the answers, were they no longer than a scripted captain's."""
        return round(self.answers * TOKENS_A_CHARACTER)

    @property
    def known_share(self) -> float:
        """Share of the later prompts that stood at the beginning of the one before."""
        return self.known / max(1, self.prompts - self._first)

    _first: int = field(default=0, repr=False)

    def asked(self, prompt: str, known: int, answer: str) -> None:
        """Count a question."""
        if not self.calls:
            self._first = len(prompt)
        elif known >= 0.9 * len(prompt):
            self.alike += 1
        self.calls += 1
        self.prompts += len(prompt)
        self.known += known
        self.answers += len(answer)
        self.longest = max(self.longest, len(prompt))


class ScriptedEndpoint:
    """A model's endpoint that gives prepared answers, and measures the requests.

    Args:
        settings: How the model is asked.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.rehearsal = Rehearsal()
        self.requests: list[ChatRequest] = []
        self._settings = settings
        self._before = ""
        self._next: tuple[str, Mapping[str, Any], str] = "", {}, ""

    def answers(self, tool: str, arguments: Mapping[str, Any], reason: str) -> None:
        """Prepare the next answer."""
        self._next = tool, arguments, reason[:_REASON]

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """The answer."""
        tool, arguments, reason = self._next
        prompt = prompt_text(request.messages, request.tools)
        reasoned = {REASON: reason, **arguments}
        answer = ChatAnswer(text="", model=self._settings.model, finish_reason="stop")
        if self._settings.style == "tools":
            call = ToolCall(f"call_{len(self.requests)}", tool, encode_json(reasoned))
            answer.tool_calls = (call,)
        elif self._settings.style == "xml":
            answer.text = f"<tool_call>{encode_json({'name': tool, 'arguments': reasoned})}</tool_call>"
        else:
            answer.text = encode_json({REASON: reason, "tool": tool, "arguments": dict(arguments)})
        self.requests.append(request)
        self.rehearsal.asked(prompt, shared(self._before, prompt), answer.text or f"{tool}{reasoned}")
        self._before = prompt
        return answer

    async def aclose(self) -> None:
        """Nothing to close."""


def prompt_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """A prompt as one text, in the order in which endpoints read and keep it: tools, then messages."""
    parts = [encode_json(list(tools))] if tools else []
    for message in messages:
        beside = [
            f"{call['function']['name']}{call['function']['arguments']}"
            for call in message.get("tool_calls", ())
        ]
        parts += [f"<{message['role']}>", message["content"], *beside]
    return "".join(parts)


def shared(before: str, after: str) -> int:
    """Characters at the beginning of ``after`` with which ``before`` begins, too.

    >>> shared("the score is 4", "the score is 10")
    13
    """
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if after.startswith(before[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def rehearse(
    world: World,
    settings: ModelSettings,
    options: Mapping[str, Any],
    seed: int,
    *,
    captain: str | None = None,
) -> dict[str, ScriptedEndpoint]:
    """Play one match with a scripted captain in every seat, and count what a model in it would be asked.

    Args:
        world: What is played; its environment is made here.
        settings: How the model is asked.
        options: Of the episode; missing ones have their defaults.
        seed: Of the episode.
        captain: Who decides; the world's default captain when left out.

    Returns:
        By actor, an endpoint with what it was asked.

    Raises:
        ValueError: The captain is not a scripted one.
    """
    environment = world.environment()
    chosen = world.options_type.model_validate(dict(options)).model_dump()
    seen = environment.reset(seed=seed, episode_id="rehearsal", options=chosen)
    turns, most = 0, world.step_cap(chosen)
    seats: dict[str, tuple[ScriptedEndpoint, ModelPolicy, ScriptedPolicy]] = {}
    while not seen.done and seen.actor is not None and turns < most:
        if seen.actor not in seats:
            seats[seen.actor] = _seat(world, settings, derive_seed(seed, "policy", seen.actor), captain)
        endpoint, policy, scripted = seats[seen.actor]
        own = scripted.choose(seen)
        tool, arguments = "act", own.action
        if world.names_tools:
            tool, arguments = own.action["tool"], own.action.get("arguments", {})
        elif seen.legal_actions:
            tool = seen.legal_actions[0]["tool"]
        endpoint.answers(tool, arguments, own.reasoning or "It goes on with the game.")
        made = at_once(policy.decide(seen, deadline=PATIENCE_S))
        seen, turns = environment.step(made.action), turns + 1
    return {actor: endpoint for actor, (endpoint, *_) in seats.items()}


def _seat(
    world: World, settings: ModelSettings, seed: int, captain: str | None
) -> tuple[ScriptedEndpoint, ModelPolicy, ScriptedPolicy]:
    decides = world.captains[captain or world.default_captain].build(seed)
    fallback = world.captains[world.default_captain].build(seed)
    if not isinstance(decides, ScriptedPolicy) or not isinstance(fallback, ScriptedPolicy):
        raise ValueError(f"{world.name}: only a scripted captain can rehearse a match")
    endpoint = ScriptedEndpoint(settings)
    policy = ModelPolicy(
        endpoint, settings, world.briefing, fallback=fallback, seed=seed, clock=SystemClock()
    )
    return endpoint, policy, decides


FIRST_TOKEN_S: Final = 0.5
"""Seconds until an answer begins, an assumption: hosted models of 2025 took 0.3 to 1."""

TOKENS_A_SECOND: Final = 60.0
"""Speed of an answer, an assumption: hosted models of 2025 wrote 30 to 150 tokens a second."""

CACHED: Final = 0.75
"""Share of what can be cached that an endpoint typically does, an assumption."""

ASKED_AGAIN: Final = 0.05
"""Share of the questions that are typically asked a second time, an assumption."""

TYPICAL: Final = (
    f"{CACHED:.0%} of what can be cached is, {ASKED_AGAIN:.0%} of the questions are asked again, and answers "
    "are the geometric mean of short and longest"
)
"""What the typical case assumes."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The expected usage of one model in an evaluation.

    Args:
        captain: Its preset.
        seats: How many seats it has in all matches; both of a match where it plays itself.
        match: What a seat would be asked in one match.
        longest: Tokens that each answer may have at most.
        price: What tokens cost; ``None`` where it is not known.
    """

    captain: str
    seats: int
    match: Rehearsal
    longest: int
    price: Price | None

    @property
    def calls(self) -> int:
        """Questions in all matches."""
        return self.match.calls * self.seats

    @property
    def least(self) -> Usage:
        """Tokens in all matches, with short answers, at an endpoint with a cache."""
        return Usage(
            self.match.tokens_in * self.seats,
            self.match.tokens_out * self.seats,
            cached_in=self.match.cached_in * self.seats,
        )

    @property
    def most(self) -> Usage:
        """Tokens in all matches, with every answer of the greatest length, at an endpoint without a cache."""
        return Usage(self.match.tokens_in * self.seats, self.longest * self.calls)

    @property
    def typical(self) -> Usage:
        """Tokens in all matches in a typical case: see :data:`TYPICAL`."""
        longest = self.longest * self.calls
        short = self.match.tokens_out * self.seats
        calls = 1.0 + ASKED_AGAIN
        return Usage(
            round(calls * self.match.tokens_in * self.seats),
            round(calls * math.sqrt(max(1, short) * max(1, longest))),
            cached_in=round(CACHED * self.match.cached_in * self.seats),
        )

    def seconds(self, used: Usage, jobs: int) -> float:
        """Time of asking, by :data:`FIRST_TOKEN_S` and :data:`TOKENS_A_SECOND`, ``jobs`` matches at once."""
        at_once = max(1, min(jobs, self.seats))
        return (self.calls * FIRST_TOKEN_S + used.tokens_out / TOKENS_A_SECOND) / at_once

    def lines(self, jobs: int) -> Iterator[str]:
        """The estimate in words."""
        least, typical, most = self.least, self.typical, self.most
        cached = least.cached_in / max(1, least.tokens_in)
        each = self.match.calls
        yield f"{self.captain}: {self.calls:,} calls in {self.seats:,} seats of a match, {each} in each"
        yield f"  tokens in: {least.tokens_in:,}, of which {cached:.0%} can be cached"
        yield (
            f"  tokens out: {least.tokens_out:,} (short answers) to {most.tokens_out:,} (longest answers), "
            f"typically {typical.tokens_out:,}"
        )
        if self.price is None:
            yield "  money: no price is known; set price_in and price_out in its table, or name its provider"
        else:
            low, high = self.price.cost(least), self.price.cost(most)
            usual = self.price.cost(typical)
            span = f"{low:.4g} (cache, short answers) to {high:.4g} (neither), typically {usual:.4g}"
            yield f"  money: {span}, at {self.price}"
        low, usual, high = (self.seconds(used, jobs) for used in (least, typical, most))
        span = f"{_duration(low)} to {_duration(high)}, typically {_duration(usual)}, {jobs} matches at once"
        pace = f"{FIRST_TOKEN_S:g} s to the first token and {TOKENS_A_SECOND:g} tokens a second"
        yield f"  time: {span}, at {pace}"


def total_lines(demands: Sequence[Demand], jobs: int) -> Iterator[str]:
    """The estimate of all models together; nothing without models."""
    if not demands:
        return
    cases = [[getattr(one, case) for one in demands] for case in ("least", "typical", "most")]
    tokens = [sum(used.tokens_in + used.tokens_out for used in case) for case in cases]
    prices = [one.price for one in demands]
    money = [
        sum(price.cost(used) for price, used in zip(prices, case, strict=True) if price is not None)
        for case in cases
    ]
    seconds = [
        sum(one.seconds(used, jobs) for one, used in zip(demands, case, strict=True)) for case in cases
    ]
    yield f"total of {len(demands)} models: {sum(one.calls for one in demands):,} calls"
    yield f"  tokens: {tokens[0]:,} to {tokens[2]:,}, typically {tokens[1]:,}"
    unpriced = [one.captain for one in demands if one.price is None]
    left_out = f", without {', '.join(unpriced)}, whose prices are unknown" if unpriced else ""
    yield f"  money: {money[0]:.4g} to {money[2]:.4g}, typically {money[1]:.4g}{left_out}"
    yield f"  time: {_duration(seconds[0])} to {_duration(seconds[2])}, typically {_duration(seconds[1])}"
    yield f"  typically: {TYPICAL}"


SEED_VARIANCE: Final = 0.125
"""Variance of the share of two independent matches of equals, an assumption."""

DIFFERENCE: Final = 0.05
"""Difference of a win share from one half that :func:`power_lines` speaks of."""

POWER: Final = 0.8
"""Probability of finding it."""


def matches_needed(pairs: int, *, head_to_head: bool) -> int:
    """Matches of a pair that show with 80 % power that its win share is not one half.

    The usual two-sided test of a mean: ((z(1 - alpha / 2) + z(power)) s / DIFFERENCE)^2 units, s = 1/2 for
    a match that is won or lost. Matches on one seed count as independent. That is cautious where swapped
    seats cancel out what the seed favours, and where there are ties.

    Args:
        pairs: Pairs that are compared; alpha, 5 %, is divided by their number (Bonferroni).
        head_to_head: Whether a seed has two matches of a pair; else one comparison of two episodes.

    >>> matches_needed(1, head_to_head=True)
    786
    """
    normal = NormalDist()
    quantiles = normal.inv_cdf(1.0 - 0.05 / pairs / 2.0) + normal.inv_cdf(POWER)
    units = math.ceil((quantiles * 0.5 / DIFFERENCE) ** 2)
    return units + units % 2 if head_to_head else 2 * units


def power_lines(schedule: Schedule) -> Iterator[str]:
    """How many matches would show a small difference, and what the planned ones can show."""
    pairs, met = len(schedule.compared), bool(schedule.world.opponents)
    needed = matches_needed(1, head_to_head=met)
    shown = f"{100 * DIFFERENCE:g} points from one half with {100 * POWER:g} % power"
    yield f"to show a win share that differs by {shown}, a pair needs about {needed:,} matches"
    if pairs > 1:
        all_pairs = matches_needed(pairs, head_to_head=met)
        yield f"  {all_pairs:,} for each of {pairs} pairs, corrected for their number (Bonferroni)"
    planned, rule = 2 * schedule.pairs, schedule.rule
    if rule is not None:
        seeds = 2.0 * SEED_VARIANCE * math.log(2.0 / rule.alpha) / rule.half_width**2
        target = f"\u00b1{100 * rule.half_width:g} points"
        expected = 2 * math.ceil(seeds)
        yield f"  {target} take about {expected:,} matches of a pair of equals; {planned:,} at most"
        return
    smallest = 100 * DIFFERENCE * math.sqrt(matches_needed(pairs, head_to_head=met) / max(1, planned))
    yield f"  the planned {planned:,} matches of a pair show a difference of about {smallest:.2g} points"


def estimate_evaluation(schedule: Schedule) -> list[Demand]:
    """Estimate the usage of each model of ``schedule``, including finished matches.

    Raises:
        ValueError: The world's default captain is not a scripted one.
    """
    world, found = schedule.world, []
    for name in schedule.captains:
        build = world.captains[name].build
        if not isinstance(build, ModelBuild) or not schedule.matches:
            continue
        settings = build.captain.settings()
        asked = rehearse(world, settings, schedule.options, schedule.matches[0].seed)
        heaviest = max((one.rehearsal for one in asked.values()), key=lambda one: one.prompts)
        seats = sum((name == match.home) + (name == match.away) for match in schedule.matches)
        found.append(Demand(name, seats, heaviest, settings.max_tokens, build.captain.price))
    return found


def _duration(seconds: float) -> str:
    """Format a duration.

    >>> _duration(90), _duration(7_500)
    ('90 s', '2 h 05 min')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
