"""Commentary on a campaign, in the voice of a control room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spectator.environments.collider.events import PREFIX
from spectator.environments.collider.projection import channel_name, with_capital
from spectator.environments.world import derive_seed
from spectator.events import Event
from spectator.narration.commentary import Line

Data = Mapping[str, Any]

MAX_LINE: Final = 300


def comment(event: Event, state: Data) -> Sequence[Line]:
    """Return the lines about an event; the same event and state give the same lines."""
    if not event.type.startswith(PREFIX):
        return ()
    speak = _LINES.get(event.type.removeprefix(PREFIX))
    return () if speak is None else speak(event.data, state)


def spoken(line: str) -> str:
    """Return a line as it is read aloud: units and symbols in words.

    Example:
        >>> spoken("100 fb⁻¹ at 13 TeV: 5.1 sigma at 125.1 ± 0.3 GeV")
        '100 inverse femtobarns at 13 T e V: 5.1 sigma at 125.1 plus or minus 0.3 G e V'
    """
    for written, said in _SPOKEN:
        line = line.replace(written, said)
    return line


_SPOKEN: Final = (
    ("fb⁻¹", "inverse femtobarns"),
    ("±", "plus or minus"),
    ("GeV", "G e V"),
    ("TeV", "T e V"),
    ("MUSD", "million dollars"),
    ("95 % CL", "95 percent confidence"),
    (" %", " percent"),
)


def _line(text: str, **marks: Any) -> list[Line]:
    return [Line(text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…", **marks)]


def _one_of(data: Data, *texts: str) -> str:
    """Choose one of ``texts``, the same in every process."""
    facts = (str(data.get("selection_id", "")), str(data.get("channel", "")), f"{data['days_left']:g}")
    return texts[derive_seed(len(texts), "collider", "phrase", *facts) % len(texts)]


def _opened(data: Data, state: Data) -> Sequence[Line]:
    low, high = data["search_window_gev"]
    if data["real_data"]:
        text = f"Real collisions, recorded by CMS. What is there between {low:g} and {high:g} GeV?"
    else:
        text = (
            f"A search from {low:.4g} to {high:.4g} GeV, with {data['budget_left_musd']:g} MUSD and "
            f"{data['days_left']:g} days. There may be nothing there at all."
        )
    return _line(text, priority=1, label="start")


def _beam(data: Data, state: Data) -> Sequence[Line]:
    dear = f"{data['cost_musd_per_fb']:.3g} MUSD and {data['days_per_fb']:g} days for each fb⁻¹"
    return _line(f"Beams at {data['sqrt_s_tev']:g} TeV: {dear}.", priority=2, label=f"{data['sqrt_s_tev']:g}")


def _trigger(data: Data, state: Data) -> Sequence[Line]:
    asked = sum(data["rates_hz"].values())
    if data["live_fraction"] < 0.95:
        text = (
            f"The trigger asks for {asked:.0f} Hz of {data['bandwidth_hz']:.0f}: "
            f"only {100 * data['live_fraction']:.0f} % of what fires will be written."
        )
        return _line(text, priority=2, label="trigger")
    items = ", ".join(
        f"{channel_name(name)} from {cut:g} GeV" for name, cut in data["thresholds_gev"].items()
    )
    return _line(f"The trigger takes {items}.", label="trigger")


def _run(data: Data, state: Data) -> Sequence[Line]:
    total = sum(data["events"].values())
    text = _one_of(
        data,
        f"{data['luminosity_collected_fb']:g} fb⁻¹ on tape: {total:,} events outside the blinded window.",
        f"The run is over, {data['luminosity_collected_fb']:g} fb⁻¹ and {total:,} visible events on tape.",
    )
    days = f"{data['days_left']:.0f} days left."
    return _line(f"{text} {days}", priority=1, label="run")


def _calibrated(data: Data, state: Data) -> Sequence[Line]:
    off = 100 * (data["scale"] - 1.0)
    sure = 100 * data["scale_error"]
    text = (
        f"The {data['candle']} peak sits {abs(off):.2f} % {'high' if off > 0 else 'low'}, "
        f"known to {sure:.2g} %. Every mass will be corrected by that."
    )
    return _line(text, priority=2, label="scale")


def _optimised(data: Data, state: Data) -> Sequence[Line]:
    kept, through = 100 * data["signal_efficiency"], 100 * data["background_efficiency"]
    return _line(
        f"The cut keeps {kept:.0f} % of a signal and {through:.0f} % of the background.", label="cut"
    )


def _built(data: Data, state: Data) -> Sequence[Line]:
    low, high = data["window_gev"]
    name = channel_name(data["channel"])
    if not data["blinded_gev"]:
        return _line(f"The spectrum of {name}, already open.", label="mass")
    return _line(
        f"The spectrum of {name}: {low:.4g} to {high:.4g} GeV stays hidden.", priority=2, label="blind"
    )


def _background(data: Data, state: Data) -> Sequence[Line]:
    p = data["p_value"]
    fits = f"the {data['function'].replace('_', ' ')} describes it (p = {p:.2g})"
    if p < 0.01:
        fits = f"the {data['function'].replace('_', ' ')} does not describe it (p = {p:.1g})"
    return _line(f"In {channel_name(data['channel'])} {fits}.", label="fit" if p >= 0.01 else "poor fit")


def _frozen(data: Data, state: Data) -> Sequence[Line]:
    names = ", ".join(channel_name(one["channel"]) for one in data["channels"])
    return _line(f"Frozen: {names}. From here on nothing of it may change.", priority=1, label="freeze")


def _unblinded(data: Data, state: Data) -> Sequence[Line]:
    text = _one_of(
        data,
        f"The box is open: {channel_name(data['channel'])}, {data['luminosity_fb']:g} fb⁻¹.",
        f"Unblinded: {channel_name(data['channel'])} in {data['luminosity_fb']:g} fb⁻¹.",
    )
    return _line(text, priority=0, label="OPEN")


def _scanned(data: Data, state: Data) -> Sequence[Line]:
    z, mass = data["best_z"], data["best_mass_gev"]
    where = f"{z:.1f} sigma local at {mass:.5g} GeV"
    if not data["shape_ok"]:
        return _line(f"{where}, but the background is not described there.", priority=2, label=f"{z:.1f}")
    if z < 2.5:
        text = f"Nothing stands out: {where} is the largest."
    elif z < 4.0:
        text = f"A hint: {where}. Somewhere in a window this wide, chance does that."
    else:
        text = f"There is something: {where}."
    return _line(text, priority=1 if z >= 4.0 else 2, label=f"{z:.1f}")


def _significance(data: Data, state: Data) -> Sequence[Line]:
    found = f"{data['z_local']:.1f} sigma local is {data['z_global']:.1f} global"
    if not data["background_fits"] and data["z_global"] < 3.0:
        return _line(f"{found}: no background describes these data.", priority=1, label="no fit")
    if data["z_global"] >= 5.0:
        return _line(f"{found}. That is past the line of a discovery.", priority=0, label="5 sigma")
    if data["z_global"] >= 3.0:
        return _line(f"{found}: evidence, no discovery.", priority=1, label="3 sigma")
    return _line(f"{found}: looking in many places costs.", priority=2, label=f"{data['z_global']:.1f}")


def _fitted(data: Data, state: Data) -> Sequence[Line]:
    if not data["converged"]:
        return _line("The fit of the peak does not converge.", priority=2, label="no fit")
    mass = f"{data['corrected_mass_gev']:.5g} ± {data['corrected_error_gev']:.2g} GeV"
    return _line(f"A peak of {data['signal']:.0f} events at {mass}.", priority=1, label="mass")


def _angle(data: Data, state: Data) -> Sequence[Line]:
    separation = max(data["expected_separation"].values(), default=0.0)
    best = data["best"]
    text = f"The angles like {'spin ' + best if best.isdigit() else best.replace('_', ' ')} best"
    if separation < 2.0:
        return _line(f"{text}, but {data['mass_gev']:.4g} GeV has too few events to tell.", label="spin")
    return _line(
        f"{text}; the others would differ by up to {separation:.1f} sigma.", priority=2, label="spin"
    )


def _checked(data: Data, state: Data) -> Sequence[Line]:
    agree = "agree" if data["p_value"] > 0.05 else "do not agree"
    text = f"{data['first']} and {data['second']} {agree} (p = {data['p_value']:.2g})."
    return _line(text, priority=2 if data["p_value"] > 0.05 else 1, label="check")


def _limit(data: Data, state: Data) -> Sequence[Line]:
    text = (
        f"At {data['mass_gev']:.4g} GeV at most {data['rate_limit_fb']:.3g} fb, at 95 % CL: "
        f"{data['signal_limit']:.3g} events, where {data['expected_limit']:.3g} were expected."
    )
    return _line(text, priority=2, label="limit")


def _claimed(data: Data, state: Data) -> Sequence[Line]:
    if data["kind"] == "null":
        limit = data.get("rate_limit_fb")
        below = "" if limit is None else f" The strongest limit is {limit:.3g} fb, at 95 % CL."
        return _line(f"No signal is claimed.{below}", priority=0, label="NULL")
    mass = f"{data['mass_gev']:.5g} ± {data['mass_error_gev']:.2g} GeV"
    word = "A discovery" if data["kind"] == "discovery" else "Evidence"
    return _line(f"{word} is claimed, at {mass}.", priority=0, label="CLAIM")


def _broken(data: Data, state: Data) -> Sequence[Line]:
    return _line(f"A rule is broken: {data['message']}", priority=2, label="rule")


def _graded(data: Data, state: Data) -> Sequence[Line]:
    return _line(f"{with_capital(data['verdict'])}. Score {data['score']:.2f}.", priority=0, label="end")


_LINES: Final[Mapping[str, Callable[[Data, Data], Sequence[Line]]]] = {
    "campaign_opened": _opened,
    "beam_configured": _beam,
    "trigger_set": _trigger,
    "run_collected": _run,
    "detector_calibrated": _calibrated,
    "selection_optimised": _optimised,
    "spectrum_built": _built,
    "background_estimated": _background,
    "selection_frozen": _frozen,
    "unblinded": _unblinded,
    "mass_scanned": _scanned,
    "significance_estimated": _significance,
    "resonance_fitted": _fitted,
    "angle_measured": _angle,
    "cross_checked": _checked,
    "limit_set": _limit,
    "claim_made": _claimed,
    "rule_broken": _broken,
    "campaign_graded": _graded,
}
