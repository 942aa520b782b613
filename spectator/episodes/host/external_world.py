"""The world of an external episode: somebody else's environment, known by what it reports."""

from __future__ import annotations

from typing import NoReturn

from pydantic import BaseModel

from spectator.environments.base import ObservationModel, OptionsModel, StateModel
from spectator.environments.world import Pack, World
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.policies.base import Preset
from spectator.steppers.remote import AGENT, Observed
from spectator.steppers.remote_world import UNKNOWN, show_observed, tell_observed


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
        actors=(AGENT,),
        environment=lambda: _elsewhere(0),
        action_type=BaseModel,
        observation_type=ObservationModel,
        state_type=StateModel,
        options_type=OptionsModel,
        events={"remote.observed": Observed},
        projection=show_observed,
        commentator=tell_observed,
        captains={"remote": captain},
        packs={"default": pack},
        step_cap=lambda options: 1_000_000,
        default_captain="remote",
        profile=UNKNOWN,
    )
    return EpisodePlan(world, captain, None, pack, seed, Pace.MAX, False, {})


def _elsewhere(_: int) -> NoReturn:
    raise NotImplementedError("it is played elsewhere")
