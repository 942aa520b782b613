"""What the campaign tells is what claim files are made of: same fields, same order, the very numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.environments.collider import claim_file
from spectator.environments.collider.environment import ColliderEnvironment
from spectator.environments.collider.reference_physicist import ReferencePhysicist
from spectator.events import EventData, Fact


def fields_of(model: type[EventData], data: Mapping[str, Any]) -> dict[str, Any]:
    """What of an event a claim file takes."""
    return {name: data[name] for name in model.model_fields if name in data}


def facts_of(seed: int) -> tuple[ColliderEnvironment, list[Fact]]:
    environment, policy = ColliderEnvironment(), ReferencePhysicist()
    observation = environment.reset(
        seed=seed, episode_id="claims", options={"scenario": "mixed", "difficulty": "easy"}
    )
    facts = list(environment.facts())
    while not observation.done:
        observation = environment.step(policy.choose(observation).action)
        facts += environment.facts()
    return environment, facts


def test_frozen_opened_and_claimed_fit_the_records_and_come_in_this_order() -> None:
    environment, facts = facts_of(1001)
    kinds = [fact.type.removeprefix("collider.") for fact in facts]
    assert kinds.index("selection_frozen") < kinds.index("unblinded") < kinds.index("claim_made")
    for fact in facts:
        match fact.type:
            case "collider.selection_frozen":
                frozen = claim_file.SelectionFrozen.model_validate(
                    fields_of(claim_file.SelectionFrozen, fact.data)
                )
                assert frozen.channels[0].background != "auto"
            case "collider.unblinded":
                opened = claim_file.Unblinded.model_validate(fields_of(claim_file.Unblinded, fact.data))
                lab = environment.laboratory
                edges = lab.edges(lab.selection.channels[opened.channel])
                assert opened.edges_gev == edges.tolist() and len(opened.counts) == len(edges) - 1
            case "collider.claim_made":
                claim_file.ClaimMade.model_validate(fields_of(claim_file.ClaimMade, fact.data))
