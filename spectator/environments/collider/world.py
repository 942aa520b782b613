"""The collider world as registered in the catalogue, with its prompt for models."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

from spectator.environments.collider.actions import (
    AGENT,
    ColliderAction,
    ColliderObservation,
    ColliderOptions,
    ColliderState,
    schemas,
    schemas_of_all,
)
from spectator.environments.collider.commentary import comment, spoken
from spectator.environments.collider.environment import MAX_STEPS, ColliderEnvironment, snapshot_for
from spectator.environments.collider.events import BEATS, EVENTS
from spectator.environments.collider.physicists import HeuristicPhysicist, OraclePhysicist, RandomPhysicist
from spectator.environments.collider.projection import picture, project
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.environments.collider.reward import EVIDENCE, FALSE_EVIDENCE, HARD_COST, SOFT_COST, STEPS
from spectator.environments.world import SEALED_BIT, Pack, World, derive_seed
from spectator.observations import LegalAction, Observation
from spectator.policies.policy import Preset
from spectator.policies.prompts import Rendering, legend

GUIDE: Final = f"""\
WHAT COUNTS. One score in [0, 1] at the end: conduct x decision x (0.55 + 0.40 quality + 0.05 share of the
money left). Conduct is exp(-{SOFT_COST} broken rules - {HARD_COST} refused actions). Decision is 1 for a
true discovery, {EVIDENCE} for true evidence, 0.05 for a claim without evidence, 0 for a false claim
({FALSE_EVIDENCE} for false evidence); concluding null when there is nothing 0.25 + 0.75 x how well the
window was searched, and less when there was something to find. Quality of a claim: mass 0.35 (interval
score of the quoted 68 % interval against the best error the budget allowed), spin 0.25 and channel 0.20
(Brier scores of your probabilities), honest z 0.10 (quoted against measured z_global), probability 0.10.
Quality of a null: sensitivity 0.60, limits set in every channel 0.25, probability 0.15.

UNITS. Masses, energies and thresholds in GeV (beams in TeV), luminosity in fb^-1, money in MUSD, time in
days, rates of a process in fb and of the trigger in Hz; z in standard deviations.

{legend(ColliderObservation)}"""
"""Part of the prompt that is the same in every campaign."""

TOOLS: Final[Sequence[LegalAction]] = [
    LegalAction(tool=tool, arguments=schema) for tool, schema in schemas_of_all().items()
]
"""Every action of any campaign."""


def actions(observation: Observation) -> Sequence[LegalAction]:
    """Return every action of this campaign."""
    given = schemas(observation.content["task"])
    return [LegalAction(tool=tool, arguments=schema) for tool, schema in given.items()]


BRIEF: Final = """\
You search for a new resonance at a collider; there may be none. Money, luminosity and days are limited. Usual
order: configure_beam, set_trigger, allocate_luminosity, collect_collisions, select_channel,
build_invariant_mass, subtract_background, freeze_selection, unblind, scan_bump, estimate_significance,
fit_resonance, set_limit. End with submit_discovery_claim (discovery needs z_global of 5, evidence 3) or with
conclude_null. A false claim scores nothing."""
"""The search in a few sentences, for small models."""

BRIEF_LINES: Final = (
    "resource_usage", "last_result", "rule_violations", "planned_fb", "selected_beam_energy", "trigger",
    "runs", "selection", "findings", "candidate_masses_gev", "cumulative_significance",
    "task.search_window_gev",
)  # fmt: skip
"""Lines that small models see, most important first."""

RENDERING: Final = Rendering(guide=GUIDE, actions=actions, brief=BRIEF, brief_lines=BRIEF_LINES)
"""Prompt of a campaign for language models."""

_PANEL: Final = Path(__file__).parent / "panel"


def _release(package: str) -> str:
    return ".".join(version(package).split(".")[:2])


VERSION: Final = f"1.6+numpy{_release('numpy')}.scipy{_release('scipy')}"
"""Version of the rules and of the libraries a replay depends on: numpy's random streams, scipy's
functions."""

SEEDS_A_PACK: Final = 40

TASK: Final = (
    "You lead a search for a new resonance at a collider. There may be one in the search window, or none; "
    "a false discovery scores nothing, and so does a missed one nearly. Money (MUSD), luminosity (fb^-1) "
    "and days are limited. A usual order: configure_beam (cost and days per fb^-1 differ; signal and "
    "background grow with energy), set_trigger (one threshold in GeV for each channel that you want "
    "recorded; a pair of mass m passes from about 2.2 x threshold on, rates go as threshold^-4 and share "
    "1000 Hz, beyond that everything is prescaled to live_fraction), allocate_luminosity and "
    "collect_collisions (a run is recorded once; analysing it again gains nothing, another run is "
    "independent data), calibrate_detector (scale is measured over true mass), select_channel, "
    "optimise_selection (cut on a score in [0, 1]), build_invariant_mass (search window, blinded; fit only "
    "masses above the turn-on of the trigger), "
    "subtract_background (function; look at the p-value), freeze_selection, unblind, scan_bump (z is "
    "local), estimate_significance (z_global takes the window, other backgrounds and every look into "
    "account: look k in c channels counts a p-value c x 2^k times; nothing is evidence where no "
    "background fits), "
    "fit_resonance, measure_angular (log-likelihood of each spin), cross_check, "
    "set_limit. A trigger can make a false bump that sits at a fixed ratio to its threshold: take two "
    "runs with different thresholds and cross_check. A bump of the first run alone may be a "
    "fluctuation. End with submit_discovery_claim: kind=discovery needs z_global >= 5, kind=evidence >= "
    "3, as estimated; quote mass_gev corrected for the scale, an honest 68 % error, and probabilities of "
    "channel and spin; or with conclude_null, best after set_limit in every channel that was searched. "
    "The score in [0, 1] comes once, at the end, from proper scores."
)
"""Task description for language models."""


def _seeds(name: str) -> tuple[int, ...]:
    return tuple(
        derive_seed(number, "collider", "development", name, "2") % SEALED_BIT
        for number in range(SEEDS_A_PACK)
    )


PACKS: Final = {
    pack.name: pack
    for pack in (
        Pack("default", "1", "Any campaign, any seed."),
        *(
            Pack(
                tier,
                "2",
                f"Campaigns of all kinds of the tier {tier}, nulls and real data among them.",
                {"scenario": "any", "difficulty": tier},
                _seeds(tier),
            )
            for tier in ("easy", "medium", "hard", "expert")
        ),
    )
}
"""Packs by name."""

CAPTAINS: Final = {
    preset.name: preset
    for preset in (
        Preset("heuristic", "Textbook physicist", "Searches two channels by one plan.", "heuristic",
               lambda seed: HeuristicPhysicist()),
        Preset("reference", "Reference physicist", "Surveys, follows up with fresh data, and doubts.",
               "heuristic", lambda seed: ReferencePhysicist()),
        Preset("oracle", "Oracle (sees the truth)", "Knows what is there, and only has to measure it.",
               "oracle", lambda seed: OraclePhysicist()),
        Preset("random", "Random physicist", "Draws any legal action.", "random", RandomPhysicist),
    )
}  # fmt: skip
"""Physicists that need no model."""


def _prepare() -> None:
    """Import what analyses import at their first call, where it is installed."""
    for name in ("iminuit", "scipy.optimize", "scipy.special"):
        with suppress(ImportError):  # the analysis that needs it says so
            import_module(name)


WORLD: Final = World(
    name="collider",
    version=VERSION,
    title="Collider discovery",
    summary="Plan a search at a collider, analyse what was recorded, and claim a resonance or decline.",
    actors=(AGENT,),
    environment=ColliderEnvironment,
    prepare=_prepare,
    snapshot_for=snapshot_for,
    action_type=ColliderAction,
    observation_type=ColliderObservation,
    state_type=ColliderState,
    options_type=ColliderOptions,
    events=EVENTS,
    projection=project,
    commentator=comment,
    spoken=spoken,
    captains=CAPTAINS,
    packs=PACKS,
    beats=BEATS,
    chapters={"collider.run_collected": "run", "collider.unblinded": "unblinding"},
    step_cap=lambda options: 4 * MAX_STEPS,
    task=TASK,
    rendering=RENDERING,
    tools=TOOLS,
    any_thread=True,
    profiles=[({"reward": "steps"}, STEPS)],
    watched_options={"limit_curves": True},
    collected_options={"reward": "steps"},
    picture=picture,
    panel=_PANEL if _PANEL.is_dir() else None,
)
