"""Routes of the seats that people play: what one is asked, and the answer to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from spectator.episodes.handle import EpisodeHandle
from spectator.errors import FieldError, InvalidRequest, NoDecisionPending
from spectator.llm.schema import UnsupportedSchema
from spectator.llm.tool_calls import CallRejected, WrittenCall
from spectator.policies.human import HumanPolicy
from spectator.policies.prompts import as_json, instructions, question, situation
from spectator.text import clean_text

from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.faults import Refused, documented
from ..security.permissions import MAX_SEAT_KEYS_HEADER, SEAT_KEYS_HEADER
from ..services import Services, ServicesDep
from .commands import ASK_S, run_command
from .control import ALWAYS, controller, find_live

MAX_REASON: Final = 1000
"""Characters of a reason that a person may give."""


SEAT_PROBLEMS: Final = documented(
    *ALWAYS,
    faults.NOT_YOURS,
    faults.NO_EPISODE,
    faults.OVER,
    faults.ELSEWHERE,
    faults.NO_PLAYER,
    faults.NOT_YOUR_SEAT,
)


class ChosenAction(Body):
    """One of the legal actions, with its arguments."""

    model_config = ConfigDict(json_schema_extra={"required": ["tool"]})

    tool: str = Field(default="", max_length=64, description="Name of a legal action")
    arguments: dict[str, Any] = Field(default_factory=dict, description="As its JSON schema has them")


class Act(Body):
    """What ``POST /custom/act`` takes."""

    model_config = ConfigDict(json_schema_extra={"required": ["turn", "action"]})

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest one that runs when left out"
    )
    actor: str | None = Field(
        default=None, max_length=64, description="Whose seat; the one that is asked when left out"
    )
    turn: int | None = Field(default=None, ge=1, description="The turn that is decided, as it was asked")
    action: ChosenAction = Field(default_factory=ChosenAction, description="What to do; needed")
    reason: str = Field(default="", max_length=MAX_REASON, description="Why, for those who watch")


class LegalCall(BaseModel):
    """One kind of action that would be accepted now."""

    tool: str
    arguments: dict[str, Any] = Field(description="JSON schema of its arguments")


class AskedSeat(BaseModel):
    """What a person is asked now."""

    actor: str = Field(description="Whose seat")
    turn: int = Field(ge=1, description="The turn to be decided")
    limit_s: float = Field(ge=0, description="Seconds for this decision")
    left_s: float = Field(ge=0, description="Seconds left of them; they stand still during a pause")
    legal_actions: list[LegalCall]
    situation: dict[str, Any] = Field(description="What this actor sees, as the world tells it")
    refused: dict[str, str] | None = Field(description="{rule, message} when the last action was refused")
    prompt: str = Field(description="The same as a language model would be asked it")


class Seats(BaseModel):
    """The seats of an episode that people play."""

    episode_id: str
    seats: list[str] = Field(description="Actors that a person plays")
    yours: list[str] = Field(
        description="Those of them for whom this request may ask and decide: by their keys, or all where one "
        "person plays and no key is sent"
    )
    deciding: str | None = Field(description="The actor whose decision is waited for now")
    turn: int = Field(ge=0, description="Turns that are over")
    paused: bool
    asked: AskedSeat | None = Field(description="null while no person is asked")


class Acted(BaseModel):
    """An action that was taken; the world may still refuse it by a rule of its own."""

    episode_id: str
    actor: str
    turn: int
    action: ChosenAction


router = APIRouter(prefix="/custom", tags=["control"])


async def seat_key(
    sent: Annotated[
        str | None,
        Header(
            alias=SEAT_KEYS_HEADER,
            max_length=MAX_SEAT_KEYS_HEADER,
            description="Keys of one's seats, from the start",
        ),
    ] = None,
) -> str | None:
    """The keys that were sent."""
    return sent


SeatKeyDep = Annotated[str | None, Depends(seat_key)]


@router.get("/asked", responses=SEAT_PROBLEMS)
async def asked(
    response: Response,
    request: Request,
    key: SeatKeyDep,
    services: ServicesDep,
    episode_id: Annotated[str | None, Query(max_length=64)] = None,
) -> Seats:
    """What is asked of the people who play here; asking says that the seat is taken.

    A seat's key asks for that seat alone. Where two people play, nobody sees what is asked without one.
    """
    if key is None:
        await controller(episode_id, request, services)
    response.headers["Cache-Control"] = "no-store"
    named, people = await _people_of(services, episode_id)
    sent = {"yours": _own(named, people, key, services)}
    return await run_command("asked", handle_asked, services, named, sent, Seats, wait_s=ASK_S)


@router.post(
    "/act",
    responses=SEAT_PROBLEMS | documented(faults.NOT_ASKED, faults.OVER),
    openapi_extra=documented_body(Act),
)
async def act(
    sent: Annotated[Act, Depends(body_of(Act))], request: Request, key: SeatKeyDep, services: ServicesDep
) -> Acted:
    """Decide for a seat; each turn is decided once, whoever comes first. A key decides for its seat alone."""
    if wrong := _missing(sent):
        raise InvalidRequest(wrong)
    if key is None:  # whoever sends none must be one who may play every seat
        await controller(sent.episode_id, request, services)
    named, people = await _people_of(services, sent.episode_id)
    actor = sent.actor
    if not people:
        raise InvalidRequest([FieldError("episode_id", "nobody in this episode is played by a person")])
    if actor is not None and actor not in people:
        rule = f"no person plays {actor!r}; people play {', '.join(people)}"
        raise InvalidRequest([FieldError("actor", rule)])
    yours = _own(named, people, key, services)
    if actor not in yours if actor else not yours:
        raise _not_yours(actor, people)
    told = {
        "actor": actor,
        "yours": yours,
        "turn": sent.turn,
        "action": sent.action.model_dump(mode="json"),
        "reason": clean_text(sent.reason, MAX_REASON),
    }
    return await run_command("act", handle_act, services, named, told, Acted)


async def handle_asked(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> Seats:
    """What is asked of people in an episode that is played here."""
    live = await find_live(services, episode_id)
    everybody = _people(live)
    people = {actor: policy for actor, policy in everybody.items() if actor in sent["yours"]}
    for policy in people.values():
        policy.attend()
    return Seats(
        episode_id=live.episode_id,
        seats=list(everybody),
        yours=list(people),
        deciding=live.deciding,
        turn=live.turn,
        paused=live.paused,
        asked=next((told for actor in people if (told := _asked(live, actor, people[actor]))), None),
    )


async def handle_act(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> Acted:
    """Decide for a seat of an episode that is played here."""
    live = await find_live(services, episode_id)
    people, chosen = _people(live), ChosenAction(**sent["action"])
    own = [actor for actor in sent["yours"] if actor in people]
    asked_now = live.deciding if live.deciding in own else None
    actor: str = sent["actor"] or asked_now or next(iter(own), "")
    if actor not in own:
        raise _not_yours(sent["actor"], list(people))
    policy = people[actor]
    if sent["turn"] != live.turn + 1 or policy.asked is None:
        raise NoDecisionPending(_whose_turn(live, actor, sent["turn"]))
    try:
        policy.act(WrittenCall(chosen.tool, chosen.arguments, sent["reason"]))
    except (CallRejected, UnsupportedSchema) as error:
        raise InvalidRequest([_broken(str(error), chosen)]) from error
    return Acted(episode_id=live.episode_id, actor=actor, turn=live.turn + 1, action=chosen)


async def _people_of(services: Services, episode_id: str | None) -> tuple[str, list[str]]:
    """An episode's id, and its seats that people play, wherever it is played."""
    others = services.commands
    played_here = episode_id is None or services.supervisor.live(episode_id) is not None
    if others is None or episode_id is None or played_here or not await others.played_elsewhere(episode_id):
        live = await find_live(services, episode_id)
        return live.episode_id, list(_people(live))
    begun = await services.journal.read(episode_id, limit=1)
    seats: Mapping[str, Any] = begun[0].event.data["seats"] if begun else {}
    return episode_id, [actor for actor, seat in seats.items() if seat["source"] == "human"]


def _people(live: EpisodeHandle) -> dict[str, HumanPolicy]:
    seats = {actor: live.policy(actor) for actor in live.plan.world.actors}
    return {actor: policy for actor, policy in seats.items() if isinstance(policy, HumanPolicy)}


def _own(episode_id: str, people: Sequence[str], key: str | None, services: Services) -> list[str]:
    """The seats that whoever sends these keys may play; without any, the only one.

    Raises:
        Refused: Keys were sent that are of none of them.
    """
    if key is None:
        return list(people) if len(people) == 1 else []
    seats = services.seat_keys.seats(key, episode_id, people)
    if not seats:
        raise Refused(faults.NOT_YOUR_SEAT, "This is the key of no seat that a person plays in this episode.")
    return seats


def _asked(live: EpisodeHandle, actor: str, policy: HumanPolicy) -> AskedSeat | None:
    now = policy.asked
    if now is None:
        return None
    observation = now.observation
    briefing = policy.briefing
    legal, in_text = briefing.legal(observation), briefing.text_field is not None
    shown = briefing.render(observation) if briefing.render else as_json(situation(observation))
    return AskedSeat(
        actor=actor,
        turn=live.turn + 1,
        limit_s=now.limit_s,
        left_s=round(now.left_s, 3),
        legal_actions=[LegalCall(tool=one["tool"], arguments=dict(one["arguments"])) for one in legal],
        situation=dict(observation.content),
        refused=None if observation.refused is None else observation.refused.to_json(),
        prompt="\n\n".join(
            (
                instructions(actor, briefing.task, "json", 1, free_text=in_text),
                question(shown, () if in_text else legal, "json", ""),
            )
        ),
    )


def _missing(sent: Act) -> list[FieldError]:
    wrong = []
    if sent.turn is None:
        wrong.append(FieldError("turn", "is needed: the turn that GET /custom/asked names"))
    if not sent.action.tool:
        wrong.append(FieldError("action.tool", "is needed: the name of a legal action"))
    return wrong


def _not_yours(actor: str | None, people: Sequence[str]) -> Refused:
    whose = f"the seat {actor!r}" if actor else f"one of the seats {', '.join(people)}"
    key = f"its key in the header {SEAT_KEYS_HEADER}; the start of the episode told it"
    detail = f"Deciding for {whose} needs {key}."
    return Refused(faults.NOT_YOUR_SEAT, detail)


def _whose_turn(live: EpisodeHandle, actor: str, turn: int | None) -> str:
    now, deciding = live.turn + 1, live.deciding
    if turn is not None and turn < now:
        so_far = f"Turn {turn} is decided already"
    elif turn is not None and turn > now:
        so_far = f"Turn {turn} has not come yet"
    else:
        so_far = f"Nothing is asked of {actor} now"
    if deciding is None:
        return f"{so_far}; the world is at work on turn {now}."
    return f"{so_far}; turn {now} is for {deciding} ({live.plan.preset(deciding).name}) to decide."


def _broken(rule: str, action: ChosenAction) -> FieldError:
    """The rule beside the argument that broke it, where it names one."""
    sentence = rule.removeprefix(f"{action.tool}: ")
    where, found, said = sentence.partition(": ")
    name = where.partition(".")[0].partition("[")[0]
    if found and name in action.arguments:
        return FieldError(f"action.arguments.{where}", said)
    if sentence != rule:
        return FieldError("action.arguments", sentence)
    return FieldError("action.tool", rule)
