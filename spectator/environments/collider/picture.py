"""What a campaign's tile draws: what is left to spend, then the spectrum in focus and what its scan found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log, sqrt
from typing import Any, Final

MOST: Final = 40
"""Bins, and masses of a scan, that are drawn; more are merged."""

_LEFT: Final = ("budget_left_musd", "luminosity_left_fb", "days_left")


def picture(world: Mapping[str, Any]) -> dict[str, Any]:
    """See :attr:`spectator.environments.world.World.picture`; empty until the campaign is open.

    ``left`` is what is left of money, luminosity and days, percent. Once a spectrum is built there are its
    ``channel``, its ``bins``, the square root of what each holds in percent of the fullest's, and ``hidden``,
    where it is blinded; once it is scanned, the ``scan``: its ``span``, and ``z``, local significances in
    tenths of a sigma; and once a mass is estimated, ``peak``: where it is, and ``sigma``, its global
    significance. Places and spans are percent of the way from the lowest to the highest mass, by their
    logarithms, as the edges of the bins are spaced.

    Args:
        world: The world's part of the viewers' state.
    """
    totals, left = world.get("totals"), world.get("resources", {})
    if not totals:
        return {}
    drawn: dict[str, Any] = {"left": [round(100 * left[name] / max(totals[name], 1e-9)) for name in _LEFT]}
    channel = world.get("channels", {}).get(world.get("focus", ""), {})
    if "spectrum" not in channel:
        return drawn
    return drawn | {"channel": world["focus"]} | _analysis(channel)


def _analysis(channel: Mapping[str, Any]) -> dict[str, Any]:
    spectrum, drawn = channel["spectrum"], dict[str, Any]()
    low, high = spectrum["edges_gev"][0], spectrum["edges_gev"][-1]

    def place(mass_gev: float) -> int:
        share: float = log(mass_gev / low) / log(high / low)
        return round(100 * share)

    held = _merged(spectrum["counts"])
    most = max(*held, 1.0)
    drawn["bins"] = [round(100 * sqrt(count / most)) for count in held]
    if blinded := spectrum.get("blinded_gev"):
        drawn["hidden"] = [place(mass) for mass in blinded]
    if scan := channel.get("scan"):
        span = [place(scan["masses_gev"][0]), place(scan["masses_gev"][-1])]
        drawn["scan"] = {"span": span, "z": [round(10 * z) for z in _highest(scan["z"])]}
    if found := channel.get("significance"):
        drawn["peak"] = {"at": place(found["mass_gev"]), "sigma": round(found["z_global"], 1)}
    return drawn


def _parts(values: Sequence[float]) -> Iterator[Sequence[float]]:
    """At most :data:`MOST` runs of neighbours, as long as each other but for the last."""
    together = -(-len(values) // MOST)
    return (values[first : first + together] for first in range(0, len(values), together))


def _merged(counts: Sequence[int]) -> list[float]:
    return [sum(part) / len(part) for part in _parts(counts)]


def _highest(z: Sequence[float]) -> list[float]:
    """The highest of those that are merged: a narrow peak is not to be lost."""
    return [max(part) for part in _parts(z)]
