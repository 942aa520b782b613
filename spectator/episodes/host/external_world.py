"""The world of an external episode: somebody else's environment, known by what it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from pydantic import BaseModel, Field

from spectator.environments.base import ObservationModel, OptionsModel, Pack, StateModel, World
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.events import Event, EventData, encode_json
from spectator.narration.base import Line
from spectator.policies.base import Preset
from spectator.profile import Profile
from spectator.text import clean_text

LINE: Final = 300
"""Characters of an observation that are shown as a line."""


class Observed(EventData):
    """Somebody's own environment showed something."""

    text: str = Field(description="The observation as JSON, capped at 8,192 characters")
    reward: float = Field(description="The reward of the step, as the environment gave it")
    total: float = Field(description="All rewards so far")


MAX_TEXT: Final = 8_192

REWARDED: Final = Profile(
    rewards="step", reward_min=None, reward_max=None, score_min=None, score_max=None, actions="schema"
)
"""The profile of an environment of which nothing is known."""


def observed(observation: Mapping[str, Any], reward: float, total: float) -> Observed:
    """What was shown, within bounds.

    Raises:
        ValueError: It is not finite JSON.
    """
    return Observed(text=clean_text(encode_json(dict(observation)), MAX_TEXT), reward=reward, total=total)


def external_plan(environment: str, title: str, agent: str, seed: int) -> EpisodePlan:
    """The plan of an episode in an environment that is not here.

    Args:
        environment: Its short name.
        title: Its name as shown to people.
        agent: Name shown for whoever decides.
        seed: Its seed; 0 when it is not known.
    """
    captain = Preset("remote", agent, "Decides elsewhere.", "remote", _elsewhere)
    pack = Pack("default", "1", "Whatever is played there.")
    world = World(
        name=environment,
        version="elsewhere",
        title=title,
        summary="Played elsewhere.",
        actors=("agent",),
        environment=lambda: _elsewhere(0),
        action_type=BaseModel,
        observation_type=ObservationModel,
        state_type=StateModel,
        options_type=OptionsModel,
        events={"remote.observed": Observed},
        projection=_project,
        commentator=_comment,
        captains={"remote": captain},
        packs={"default": pack},
        step_cap=lambda options: 1_000_000,
        default_captain="remote",
        profile=REWARDED,
    )
    return EpisodePlan(world, captain, None, pack, seed, Pace.MAX, False, {})


def _elsewhere(_: int) -> NoReturn:
    raise NotImplementedError("it is played elsewhere")


def _project(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    if event.type != "remote.observed":
        return {}
    total = event.data["total"]
    return {
        "headline": f"Step {event.turn}, {total:g} reward so far",
        "observation": event.data["text"],
        "glance": {"step": event.turn, "value": total, "unit": "reward"},
    }


def _comment(event: Event, state: Mapping[str, Any]) -> Sequence[Line]:
    if event.type != "remote.observed":
        return ()
    text = clean_text(event.data["text"], LINE)
    mark = f"{event.data['reward']:+g}" if event.data["reward"] else None
    return [Line(text, priority=2 if event.data["reward"] else 3, label=mark, at=str(event.turn))]
