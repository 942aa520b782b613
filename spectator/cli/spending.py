"""Spending caps on the command line, and the report of what models spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from spectator.events import RecordedEvent
    from spectator.policies.base import Preset


def spending_options(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options ``--max-tokens`` and ``--max-cost``.

    Args:
        what: What they limit, for the help.
    """
    tokens = click.option(
        "--max-tokens",
        type=click.IntRange(min=0),
        help=f"Most tokens that the models of {what} may use; 0 = no limit.",
    )
    cost = click.option(
        "--max-cost",
        type=click.FloatRange(min=0),
        callback=_finite,
        help="The same in US dollars, by the prices of the catalogue; docs/captains.md has all caps.",
    )
    return lambda command: tokens(cost(command))


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number; leave it out, or 0, for no limit")
    return value


def refuse_unpriced(presets: Iterable[Preset]) -> None:
    """Refuse ``--max-cost`` where it would limit nothing, because prices are not known.

    Raises:
        InvalidRequest: A model has no price; names it.
    """
    from spectator.errors import FieldError, InvalidRequest
    from spectator.policies.model_presets import ModelBuild

    unpriced = [
        preset.name
        for preset in presets
        if isinstance(preset.build, ModelBuild) and preset.build.captain.price is None
    ]
    if unpriced:
        rule = (
            f"no cap of money can limit {', '.join(unpriced)}: no price is known. Set price_in and price_out "
            "in its table, name its provider, or limit it by --max-tokens"
        )
        raise InvalidRequest([FieldError("max_cost", rule)])


class SpendingReport:
    """Takes note of what models decide in one episode, and says when a cap is reached."""

    def __init__(self) -> None:
        self._reached: set[tuple[str, str]] = set()
        self._asked: Counter[str] = Counter()
        self._reasons: dict[str, Counter[str]] = {}
        self._tokens: Counter[str] = Counter()
        self._cost: dict[str, float] = {}
        self._captains: dict[str, str] = {}

    def take(self, recorded: RecordedEvent) -> None:
        """Take note of one event of the episode."""
        from spectator.events import UNDECIDED_IN

        event = recorded.event
        if event.type == "episode.started":
            seats = event.data["seats"].items()
            self._captains = {actor: seat["policy"] for actor, seat in seats if seat["source"] == "model"}
        elif event.type == "decision.made" and event.data["actor"] in self._captains:
            self._asked[event.data["actor"]] += 1
            self._decided(event.data, event.data["fallback_reason"])
        elif event.type in UNDECIDED_IN and "undecided" in event.data:
            self._decided(event.data["undecided"], None)

    def _decided(self, data: Mapping[str, Any], reason: str | None) -> None:
        actor = data["actor"]
        self._tokens[actor] += (data["tokens_in"] or 0) + (data["tokens_out"] or 0)
        self._cost[actor] = self._cost.get(actor, 0.0) + (data.get("cost") or 0.0)
        if reason is None:
            return
        self._reasons.setdefault(actor, Counter())[reason] += 1
        if data.get("failure_class") == "spent" and (actor, reason) not in self._reached:
            self._reached.add((actor, reason))
            click.echo(f"{reason}: its fallback decides for {self._captains[actor]} from here on", err=True)

    @property
    def unreached(self) -> list[str]:
        """Models that were asked and made no decision at all: a fallback played in their place."""
        return [
            captain
            for actor, captain in self._captains.items()
            if self._asked[actor] and self._reasons.get(actor, Counter()).total() == self._asked[actor]
        ]

    def report(self) -> None:
        """Say what each model took, and why it was not always the one who decided."""
        for actor, captain in self._captains.items():
            cost = f", US${self._cost.get(actor, 0.0):.4g}" if self._cost.get(actor) else ""
            reasons = self._reasons.get(actor, Counter())
            helped = f", {reasons.total()} of them by its fallback" if reasons else ""
            click.echo(
                f"{captain} ({actor}): {self._asked[actor]} decisions{helped}, "
                f"{self._tokens[actor]:,} tokens{cost}",
                err=True,
            )
            for reason, times in reasons.most_common(3):
                click.echo(f"  {times} times {reason}", err=True)
