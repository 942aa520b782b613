"""The collider environment: actions in, observations and facts out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pydantic import ValidationError

from spectator.environments.collider import physics
from spectator.environments.collider.actions import AGENT, COSTS, TOOLS, ColliderAction, schemas
from spectator.environments.collider.analysis.checks import InvalidAnalysis
from spectator.environments.collider.experiment import Laboratory
from spectator.environments.collider.looks import budget
from spectator.environments.collider.offers import narrowed, offers
from spectator.environments.collider.operations import comparison, inference, machine, preparation
from spectator.environments.collider.projection import with_capital
from spectator.environments.collider.reward import STAGE_REWARD, STAGES, Grade, conduct, grade
from spectator.environments.collider.scenarios import draw
from spectator.environments.collider.task import TOLERATED, HardRule, six
from spectator.events import Fact, encode_json
from spectator.observations import LegalAction, Observation, Refusal
from spectator.policies.policy import Action
from spectator.text import clean_text

_COSTS = {tool: list(cost) for tool, cost in COSTS.items()}


def content(lab: Laboratory, step: int, broken: list[str]) -> dict[str, Any]:
    """Build the observation.

    Nothing in it comes from nature, except through recorded events.

    Args:
        broken: Codes of the rules that the last action broke.
    """
    best = cumulative_significance(lab)
    return {
        "step_index": step,
        "task": lab.task.public,
        "costs": _COSTS,
        "resource_usage": resources(lab),
        "selected_beam_energy": None if lab.beam is None else lab.beam.sqrt_s_tev,
        "trigger": {"thresholds_gev": dict(lab.thresholds_gev), "live_fraction": lab.live_fraction},
        "planned_fb": None if lab.planned is None else lab.planned[0],
        "runs": [
            {
                "run": run.name,
                "sqrt_s_tev": run.beam.sqrt_s_tev,
                "luminosity_fb": run.luminosity_fb,
                "tuning_fraction": run.tuning_fraction,
                "thresholds_gev": dict(run.thresholds_gev),
                "live_fraction": run.live_fraction,
            }
            for run in lab.runs
        ],
        "calibration": {
            detector: {
                "scale": scale.scale,
                "scale_error": scale.scale_error,
                "resolution_factor": scale.resolution,
                "resolution_factor_error": scale.resolution_error,
                "candles": list(scale.candles),
            }
            for detector, scale in sorted(lab.scales.items())
        },
        "selection": selection(lab),
        "looks": budget(lab.looks),
        "findings": findings(lab),
        "selected_channel": next(iter(lab.selection.channels), None),
        "candidate_masses_gev": candidate_masses(lab),
        "cumulative_significance": best,
        "rule_violations": broken,
        "last_result": lab.result,
        "verdict": lab.verdict,
    }


def resources(lab: Laboratory) -> dict[str, float]:
    """Return the remaining money, luminosity and days."""
    return {
        "budget_remaining_musd": six(lab.left.budget_musd),
        "luminosity_remaining_fb": six(lab.left.luminosity_fb),
        "days_remaining": six(lab.left.days),
    }


def selection(lab: Laboratory) -> dict[str, Any]:
    """Return the current selection as JSON."""
    return {
        "selection_id": lab.selection.name,
        "frozen": lab.selection.frozen,
        "channels": {
            name: {
                "cut": analysis.cut / physics.SCORE_BINS,
                "window_gev": list(analysis.window_gev),
                "fit_window_gev": [six(edge) for edge in lab.edges(analysis)[[0, -1]]],
                "background": analysis.background,
                "opened_runs": [f"run-{run}" for run in analysis.opened],
                "closed_runs": [f"run-{run}" for run in sorted(analysis.closed_runs)],
            }
            for name, analysis in lab.selection.channels.items()
        },
    }


def findings(lab: Laboratory) -> dict[str, Any]:
    """Return the newest result of each kind, by channel."""
    found: dict[str, Any] = {}
    for name, analysis in lab.selection.channels.items():
        kept = analysis.findings
        found[name] = {
            kind: value
            for kind, value in (
                ("scan", kept.get("scan")),
                ("significance", _last(kept.get("significances"))),
                ("fit", _last(kept.get("fits"))),
                ("angle", kept.get("angle")),
                ("check", _last(kept.get("checks"))),
                ("limit", _last(kept.get("limits"))),
            )
            if value is not None
        }
    return found


def _last(values: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return values[-1] if values else None


def candidate_masses(lab: Laboratory) -> list[float]:
    """Return masses of scanned excesses of at least 3 sigma local, highest first."""
    candidates = [
        (candidate["z_local"], candidate["mass_gev"])
        for analysis in lab.selection.channels.values()
        for candidate in analysis.findings.get("scan", {}).get("candidates", ())
        if candidate["z_local"] >= 3.0
    ]
    return [mass for _, mass in sorted(candidates, reverse=True)]


def cumulative_significance(lab: Laboratory) -> float:
    """Return the largest global significance estimated on the opened data."""
    return max(
        (
            found["z_global"]
            for analysis in lab.selection.channels.values()
            for found in analysis.findings.get("significances", ())
        ),
        default=0.0,
    )


MAX_STEPS: Final = 90
"""Most actions of a campaign; after them it ends without a claim and scores 0."""

Operation = Callable[[Laboratory, Any], dict[str, Any]]

OPERATIONS: Final[Mapping[str, Operation]] = {
    "configure_beam": machine.configure_beam,
    "set_trigger": machine.set_trigger,
    "allocate_luminosity": machine.allocate_luminosity,
    "collect_collisions": machine.collect_collisions,
    "calibrate_detector": machine.calibrate_detector,
    "select_channel": preparation.select_channel,
    "optimise_selection": preparation.optimise_selection,
    "build_invariant_mass": preparation.build_invariant_mass,
    "subtract_background": preparation.subtract_background,
    "freeze_selection": preparation.freeze_selection,
    "unblind": preparation.unblind,
    "scan_bump": inference.scan_bump,
    "estimate_significance": inference.estimate_significance,
    "fit_resonance": inference.fit_peak,
    "measure_angular": comparison.measure_angular,
    "cross_check": comparison.cross_check,
    "request_theory_review": comparison.request_theory_review,
    "set_limit": comparison.set_limit,
    "submit_discovery_claim": inference.submit_discovery_claim,
    "conclude_null": inference.conclude_null,
}


def snapshot_for(snapshot: bytes, episode_id: str) -> bytes:
    """Return a snapshot as one of another episode."""
    seed, _, *rest = json.loads(snapshot)
    return json.dumps([seed, episode_id, *rest]).encode()


class ColliderEnvironment:
    """A search for a resonance at a collider, from the beam to the claim.

    Description: plan runs with money and time, analyse the data blind, then claim or report none.
    Action Space: ``{"tool": name, "arguments": {...}}``, 20 actions; see :mod:`actions`.
    Observation Space: see :class:`actions.ColliderObservation`.
    Starting State: nothing is configured, all resources are available.
    Rewards: the score of :mod:`reward` on the last step; with ``reward="steps"`` also advances on it.
    Episode End: a claim, the conclusion that there is none, or ``MAX_STEPS`` actions.
    Arguments: ``scenario``, ``difficulty``, ``reward``, ``limit_curves``.
    References: docs/reports/collider-physics.md and docs/reports/collider-skill.md.
    Version History: 1.0 first; 1.1 psi(2S) among the real dimuons, on a fifth of their seeds;
        1.2 nothing before unblinding depends on events in the search window;
        1.3 actions and arguments that are certain to be rejected are not offered;
        1.4 every look is charged, the fitted range is chosen, every estimate allows for other backgrounds,
        an excess where none describes the data does not count as evidence, and real data lie on a hidden
        axis; without combine_channels, request_systematics and a comparison of channels;
        1.5 estimates allow for a five-parameter dijet function and for four events, limits for a background
        of few events and for the error of the efficiency; 1.6 curves of limits only by ``limit_curves``.
    """

    def __init__(self) -> None:
        self._episode_id, self._seed, self._step = "", 0, 0
        self._options: dict[str, Any] = {}
        self._lab: Laboratory | None = None
        self._schemas: dict[str, dict[str, Any]] = {}
        self._legal: dict[str, tuple[LegalAction, ...]] = {}
        self._history: list[dict[str, Any]] = []
        self._score = self._paid = self._reward = 0.0
        self._stages: set[str] = set()

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Begin a campaign."""
        self._episode_id, self._seed, self._step = episode_id, seed, 0
        self._options, self._history = dict(options), []
        self._score = self._paid = self._reward = 0.0
        self._stages = set()
        task, nature = draw(self._options["scenario"], self._options["difficulty"], seed)
        self._lab = Laboratory(task, nature, seed, curves=self._options.get("limit_curves", False))
        self._legal = {}
        self._schemas = schemas(task.public)
        self._lab.add_fact(
            "campaign_opened",
            **{name: task.public.get(name) for name in (
                "campaign", "difficulty", "search_window_gev", "channels", "beams", "candles", "real_data",
                "published_z",
            )},
        )  # fmt: skip
        return self._observe([])

    def step(self, action: Action) -> Observation:
        """Carry out an action."""
        lab = self._open
        try:
            tool, given = self._parse(action)
            if self._done:
                raise HardRule("episode.over", "The campaign is over; reset to begin another.")
            broken = self._carry_out(lab, tool, given)
        except HardRule as rule:
            if not self._done:
                lab.hard += 1
            return self._observe([rule.code], Refusal(rule.code, rule.message))
        self._history.append({"tool": tool, "arguments": given.model_dump(mode="json")})
        self._pay(tool)
        return self._observe(broken)

    def _pay(self, tool: str) -> None:
        """Set the reward of a step: what its stage adds to the advances, or the rest of the score."""
        if tool in STAGES and self._options.get("reward") == "steps":
            self._stages.add(tool)
        earned = self._score if self._done else STAGE_REWARD * len(self._stages)
        self._reward, self._paid = earned - self._paid, earned

    def _parse(self, action: Action) -> tuple[str, Any]:
        try:
            called = ColliderAction.model_validate(action)
        except ValidationError as error:
            raise HardRule(
                "action.shape", f"Send {{'tool', 'arguments'}}: {error.errors()[0]['msg']}."
            ) from error
        arguments = TOOLS.get(called.tool)
        if arguments is None:
            raise HardRule("action.shape", f"No action {called.tool[:40]!r}; there are {', '.join(TOOLS)}.")
        try:
            return called.tool, arguments.model_validate(called.arguments or {})
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = clean_text(".".join(str(part) for part in problem["loc"]), 60)
            raise HardRule("invalid_parameters", f"{where}: {problem['msg']}.") from error

    def _carry_out(self, lab: Laboratory, tool: str, given: Any) -> list[str]:
        musd, days = _price(lab, tool, given)
        if musd > lab.left.budget_musd + 1e-9:
            raise HardRule(
                "over_budget", f"{tool} costs {musd:.4g} MUSD; {lab.left.budget_musd:.4g} are left."
            )
        if days > lab.left.days + 1e-9:
            raise HardRule("over_time", f"{tool} takes {days:.4g} days; {lab.left.days:.4g} are left.")
        before = (lab.left.budget_musd, lab.left.days)
        lab.left.budget_musd = six(max(0.0, before[0] - musd))
        lab.left.days = six(max(0.0, before[1] - days))
        known = len(lab.soft)
        try:
            result = OPERATIONS[tool](lab, given)
        except (HardRule, InvalidAnalysis) as refused:
            lab.left.budget_musd, lab.left.days = before
            if isinstance(refused, HardRule):
                raise
            raise HardRule("invalid_parameters", f"{refused}") from refused
        lab.result = {"tool": tool, **result}
        self._step += 1
        self._close(lab)
        return lab.soft[known:]

    def _close(self, lab: Laboratory) -> None:
        """Grade a claim; end a campaign that takes too many actions."""
        if lab.claim is not None:
            graded = grade(lab)
        elif self._step >= MAX_STEPS:
            graded = Grade("ended without a conclusion")
        else:
            return
        self._score, lab.verdict = graded.score, asdict(graded)
        lab.add_fact(
            "campaign_graded",
            scenario=self._options["scenario"],
            **lab.verdict,
            hard_violations=lab.hard,
            soft_violations=[code for code in lab.soft if code not in TOLERATED],
        )

    @property
    def state(self) -> Mapping[str, Any]:
        """The public state."""
        lab = self._lab
        if lab is None:
            return {}
        verdict = lab.verdict or {}
        return {
            "episode_id": self._episode_id,
            "result": with_capital(verdict["verdict"]) if verdict else None,
            "scenario_name": self._options["scenario"] if self._done else None,
            "difficulty": self._options["difficulty"],
            "step_index": self._step,
            "actor": None if self._done else AGENT,
            "done": self._done,
            "resource_usage": resources(lab),
            "runs": len(lab.runs),
            "selection_id": lab.selection.name,
            "candidate_masses_gev": candidate_masses(lab),
            "cumulative_significance": cumulative_significance(lab),
            "cumulative_reward": self._paid,
            "terminal_reward": verdict.get("score"),
            **{
                name: verdict.get(name)
                for name in ("correct", "discovered", "correct_mass", "correct_channel", "correct_spin")
            },
        }

    def snapshot(self) -> bytes:
        """Return the seed and the actions so far, which determine the campaign."""
        kept = [self._seed, self._episode_id, self._options, self._open.hard, self._history]
        return json.dumps(kept).encode()

    def restore(self, snapshot: bytes) -> Observation:
        """Restore a snapshot by repeating its actions."""
        seed, episode_id, options, hard, history = json.loads(snapshot)
        observation = self.reset(seed=seed, episode_id=episode_id, options=options)
        for action in history:
            observation = self.step(action)
        self._open.hard = hard
        self._open.facts = []
        return observation

    def facts(self) -> Sequence[Fact]:
        """Return the facts since the last call."""
        if self._lab is None:
            return ()
        facts, self._lab.facts = self._lab.facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Return the hidden truth; empty before the end."""
        if not self._done:
            return {}
        return {"seed": self._seed, **self._open.nature.to_json()}

    @property
    def laboratory(self) -> Laboratory:
        """The campaign with its hidden parts, for graders and oracles.

        Raises:
            RuntimeError: ``reset`` was not called.
        """
        return self._open

    @property
    def _open(self) -> Laboratory:
        if self._lab is None:
            raise RuntimeError("the campaign has not begun; call reset first")
        return self._lab

    @property
    def _done(self) -> bool:
        return self._lab is not None and self._lab.verdict is not None

    def _observe(self, broken: list[str], refused: Refusal | None = None) -> Observation:
        lab, done = self._open, self._done
        rubric = lab.verdict["rubric"] if done and lab.verdict else {"conduct": six(conduct(lab))}
        return Observation(
            actor=None if done else AGENT,
            legal_actions=() if done else self._offered(lab),
            content=content(lab, self._step, broken),
            reward=self._reward if refused is None else 0.0,
            done=done,
            refused=refused,
            metadata={"rubric": rubric},
        )

    def _offered(self, lab: Laboratory) -> tuple[LegalAction, ...]:
        found = offers(lab)
        kept = encode_json(found)
        if kept not in self._legal:
            self._legal[kept] = tuple(
                LegalAction(tool=tool, arguments=narrowed(self._schemas[tool], rules))
                for tool, rules in found.items()
            )
        return self._legal[kept]


def _price(lab: Laboratory, tool: str, given: Any) -> tuple[float, float]:
    musd, days = COSTS[tool]
    if tool == "collect_collisions":
        more = machine.run_price(lab)
        return musd + more[0], days + more[1]
    if tool == "configure_beam":
        return musd, days + machine.switching_days(lab, given.sqrt_s_tev)
    return musd, days
