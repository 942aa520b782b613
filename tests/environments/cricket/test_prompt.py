"""What a language model is told of a match: all that a captain sees, and nothing of the rival's mind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.environments.cricket import grading
from spectator.environments.cricket.captaincy.arguments import TOOLS
from spectator.environments.cricket.match.field import PRESETS
from spectator.environments.cricket.prompt import GUIDE, actions, lines, opening, render_prompt
from spectator.evaluation.estimate import TOKENS_A_CHARACTER, Rehearsal, rehearse
from spectator.observations import Observation
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import ScriptedPolicy

CRICKET = load_world("cricket")


def match(captain: str = "tactician", seed: int = 7, **options: Any) -> Iterator[Observation]:
    """Every observation of a match."""
    environment = CRICKET.environment()
    chosen = CRICKET.options_type.model_validate(options).model_dump()
    seen = environment.reset(seed=seed, episode_id="x", options=chosen)
    policy = CRICKET.captains[captain].build(1)
    assert isinstance(policy, ScriptedPolicy)
    while not seen.done:
        yield seen
        seen = environment.step(policy.choose(seen).action)


def rehearsal(style: Any = "tools", captain: str = "tactician", **options: Any) -> Rehearsal:
    settings = ModelSettings(model="m", style=style)
    return rehearse(CRICKET, settings, {"max_overs": 5, **options}, 7, captain=captain)["home"].rehearsal


def test_the_guide_has_the_weights_of_the_score_every_preset_tool_and_part_of_a_card() -> None:
    for share in ("RESULT", "QUALITY"):
        assert f"{getattr(grading, f'{share}_SHARE')} x {share.lower()}" in GUIDE
    for preset, positions in PRESETS.items():
        assert f"{preset} = {', '.join(positions)}" in GUIDE
    for word in ("attack", "aggression", "ratio", "average", "dismissals", "log", "runs an over", "metres"):
        assert word in GUIDE
    told = {name for name in TOOLS if name in GUIDE}
    assert TOOLS.keys() - told <= {
        "bowl_over", "play_over", "bowl_session", "play_session", "set_match_plan", "update_match_plan"
    }  # fmt: skip


def test_every_figure_of_both_squads_is_told_before_the_first_decision() -> None:
    first = next(match(max_overs=5))
    told = opening(first)
    assert all(word in told for word in ("5 overs", "powerplay 9", "Pitch", "evening", "reward: score"))
    for squad in first.content["squads"].values():
        for card in squad["players"]:
            (line,) = [line for line in told.splitlines() if f" {card['name']}" in line]
            for name in ("bat_runs", "bat_out", "bowl_runs", "bowl_wickets"):
                assert str(card.get(name, "")) in line
            for name in ("bat_spin", "bat_short", "bat_leg"):
                assert f"{card[name]:+g}" in line or not card[name]


def test_whatever_an_episode_has_by_its_options_is_told() -> None:
    """Each member of an observation is told; a new one that is forgotten fails here."""
    told_by = {
        "phase", "task", "side", "squads", "format", "rules", "conditions", "innings", "super_over",
        "batting", "segment", "score", "free_hit", "run_rate", "striker", "non_striker", "bowler",
        "partnership", "recent", "field", "outside_limit", "target", "need", "required_rate", "projected",
        "last_ball", "card", "result", "you", "choices", "ground", "tired", "squad_difference",
    }  # fmt: skip
    implied = {"powerplay"}  # the innings line says which part it is
    options: dict[str, Any] = {
        "ground": "lopsided",
        "form": "drawn",
        "fatigue": True,
        "squads": 120.0,
        "max_overs": 5,
    }
    shown = dict[str, str]()
    for seen in match(captain="heuristic", **options):
        assert seen.content.keys() <= told_by | implied
        told = opening(seen)
        assert "Ground lopsided" in told and "stronger by 120 Elo" in told and "bat form" in told
        if seen.content.get("score") is not None:
            shown = lines(seen)
            now = seen.content["ground"]["now"]
            assert all(f"{name} {metres:g}" in shown["boundary"] for name, metres in now.items())
            assert all(name in shown["tired bowlers"] for name in seen.content["tired"])
    assert shown["tired bowlers"] != "nobody"


def test_a_captain_reads_who_is_out_and_every_bowlers_figures() -> None:
    """The card adds up to the score at every ball of both innings."""
    innings, seen_out = 0, set[str]()
    for seen in match("aggressive", max_overs=5):
        if seen.content.get("score") is None:
            continue
        told, score, card = lines(seen), seen.content["score"], seen.content["card"]
        innings = max(innings, seen.content["innings"])
        assert len(card["out"]) == score["wickets"]
        for gone in card["out"]:
            assert f"{gone['name']} {gone['runs']} ({gone['balls']})" in told["out"]
            assert gone["how"] in told["out"]
            seen_out.add(gone["name"])
        bowled = re.findall(r"(\d+)\.(\d)-\d+-(\d+)-(\d+)", f"{told['bowled so far']} {told['bowler']}")
        assert sum(6 * int(overs) + int(balls) for overs, balls, *_ in bowled) == score["balls"]
        byes = sum(card["extras"].get(kind, 0) for kind in ("byes", "legbyes"))
        assert sum(int(runs) for *_, runs, _ in bowled) + byes == score["runs"]
        in_play = [seen.content[who]["name"] for who in ("striker", "non_striker") if seen.content[who]]
        assert all(name in told["striker"] + told["non-striker"] for name in in_play)
    assert innings == 2 and len(seen_out) >= 3
    assert "innings 1" in told and "bowling" in told["innings 1"] and "*" in told["innings 1"]


@pytest.mark.parametrize("decisions", ["ball", "over"])
def test_nothing_of_the_rivals_plans_is_told(decisions: str) -> None:
    captain = "tactician" if decisions == "ball" else "heuristic"
    for seen in match(captain, max_overs=2, decisions=decisions):
        mine = seen.content["you"]
        secret = {**seen.content, "you": {**mine, "plan": None, "aggression": 0.123, "attack": 0.321}}
        told = render_prompt(Observation(seen.actor, seen.legal_actions, secret))
        assert "aggression 0.123, attack 0.321" in told and "batting 0.5/" not in told
        if seen.content["phase"].endswith("plan"):
            assert "asked because" in told


def test_all_that_is_ever_legal_is_known_from_the_beginning() -> None:
    for decisions in ("ball", "over", "session"):
        known = None
        for seen in islice(match("random", max_overs=1, decisions=decisions), 90):
            names = {action["tool"]: action["arguments"] for action in actions(seen)}
            known = known or names
            assert names == known
            for action in seen.legal_actions:
                assert action["arguments"].get("properties", {}).keys() <= (
                    known[action["tool"]].get("properties", {}).keys()
                )


def test_lines_have_no_break_and_say_what_is_asked_and_held() -> None:
    for seen in match(max_overs=2):
        told = lines(seen)
        assert all("\n" not in line for line in told.values())
        assert told["decide"].startswith(seen.content["phase"])
        assert {"your plan", "your orders", "your calls"} <= told.keys()


@pytest.mark.parametrize("style", ["tools", "json"])
def test_nine_tenths_of_later_prompts_stood_in_the_one_before(style: str) -> None:
    asked = rehearsal(style)
    assert asked.calls > 60 and asked.known_share >= 0.9 and asked.alike >= 0.9 * (asked.calls - 1)
    assert asked.tokens_in - asked.cached_in <= 60_000
    assert asked.longest * TOKENS_A_CHARACTER < 10_000


def test_by_the_over_a_match_costs_a_quarter() -> None:
    asked = rehearsal(captain="heuristic", decisions="over")
    assert asked.calls <= 20 and asked.known_share >= 0.9
    assert asked.tokens_in - asked.cached_in <= 15_000
