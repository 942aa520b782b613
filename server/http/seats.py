"""Routes of the seats that people play: the pending decision, and acting on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from spectator.episodes.handle import EpisodeHandle
from spectator.errors import FieldError, InvalidRequest, NoDecisionPending
from spectator.llm.schema import UnsupportedSchema
from spectator.llm.tool_calls import CallRejected, WrittenCall, check_call
from spectator.observations import Observation
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
"""Most characters of a person's reason."""

MAX_DRAFT: Final = 4000
"""Most characters of a draft: a field of nine and a few other calls."""

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
    arguments: dict[str, Any] = Field(default_factory=dict, description="Arguments by its JSON schema")


_DRAFT: Final = TypeAdapter(Annotated[list[ChosenAction], Field(max_length=6)])


class Act(Body):
    """The body of ``POST /custom/act``."""

    model_config = ConfigDict(json_schema_extra={"required": ["turn", "action"]})

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest running one if omitted"
    )
    actor: str | None = Field(
        default=None, max_length=64, description="The seat; the one that is asked if omitted"
    )
    turn: int | None = Field(default=None, ge=1, description="The turn to decide, as asked")
    action: ChosenAction = Field(default_factory=ChosenAction, description="The action; required")
    reason: str = Field(default="", max_length=MAX_REASON, description="The reason, for viewers")


class LegalCall(BaseModel):
    """One legal action."""

    tool: str
    arguments: dict[str, Any] = Field(description="JSON schema of its arguments")


class AskedSeat(BaseModel):
    """A decision that a person is asked for."""

    actor: str = Field(description="The seat")
    turn: int = Field(ge=1, description="The turn to decide")
    limit_s: float = Field(ge=0, description="Seconds for this decision")
    left_s: float = Field(ge=0, description="Seconds left; a pause stops the clock")
    legal_actions: list[LegalCall]
    situation: dict[str, Any] = Field(description="What this actor sees")
    refused: dict[str, str] | None = Field(description="{rule, message} if the last action was rejected")
    prompt: str = Field(description="The same as the prompt of a language model")
    weighed: dict[str, Any] | None = Field(
        default=None, description="What the world expects of `draft`, and its advice; null without a draft"
    )


class Seats(BaseModel):
    """The seats of an episode that people play."""

    episode_id: str
    seats: list[str] = Field(description="Actors that people play")
    yours: list[str] = Field(
        description="Those that this request may see and decide for: by their keys, or all if one person "
        "plays and no key is sent"
    )
    deciding: str | None = Field(description="The actor whose decision is pending")
    turn: int = Field(ge=0, description="Completed turns")
    paused: bool
    asked: AskedSeat | None = Field(description="null while no person is asked")


class Acted(BaseModel):
    """An accepted action; the world may still reject it by its own rules."""

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
            description="Keys of your seats, from the start's answer",
        ),
    ] = None,
) -> str | None:
    """Return the keys that were sent."""
    return sent


SeatKeyDep = Annotated[str | None, Depends(seat_key)]


@router.get("/asked", responses=SEAT_PROBLEMS)
async def asked(
    response: Response,
    request: Request,
    key: SeatKeyDep,
    services: ServicesDep,
    episode_id: Annotated[str | None, Query(max_length=64)] = None,
    draft: Annotated[
        str | None, Query(max_length=MAX_DRAFT, description="Drafted calls to price, a JSON list of actions")
    ] = None,
) -> Seats:
    """Return the pending decision of people; asking marks a seat as taken.

    A key shows only its seat. If two people play, a key is required.
    """
    if key is None:
        await controller(episode_id, request, services)
    response.headers["Cache-Control"] = "no-store"
    named, people = await _people_of(services, episode_id)
    sent = {"yours": _own(named, people, key, services), "draft": _draft_of(draft)}
    return await run_command("asked", handle_asked, services, named, sent, Seats, wait_s=ASK_S)


@router.post(
    "/act",
    responses=SEAT_PROBLEMS | documented(faults.NOT_ASKED, faults.OVER),
    openapi_extra=documented_body(Act),
)
async def act(
    sent: Annotated[Act, Depends(body_of(Act))], request: Request, key: SeatKeyDep, services: ServicesDep
) -> Acted:
    """Decide for a seat; the first decision of each turn counts.

    A key decides only for its seat.
    """
    if wrong := _missing(sent):
        raise InvalidRequest(wrong)
    if key is None:  # without a key, the client must be allowed to play every seat
        await controller(sent.episode_id, request, services)
    named, people = await _people_of(services, sent.episode_id)
    actor = sent.actor
    if not people:
        raise InvalidRequest([FieldError("episode_id", "no person plays in this episode")])
    if actor is not None and actor not in people:
        rule = f"no person plays {actor!r}; people play {', '.join(people)}"
        raise InvalidRequest([FieldError("actor", rule)])
    yours = _own(named, people, key, services)
    if actor not in yours if actor else not yours:
        raise _not_yours(actor, people)
    arguments = {
        "actor": actor,
        "yours": yours,
        "turn": sent.turn,
        "action": sent.action.model_dump(mode="json"),
        "reason": clean_text(sent.reason, MAX_REASON),
    }
    return await run_command("act", handle_act, services, named, arguments, Acted)


async def handle_asked(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> Seats:
    """Return the pending decision in an episode that runs here."""
    live = await find_live(services, episode_id)
    all_people = _people(live)
    people = {actor: policy for actor, policy in all_people.items() if actor in sent["yours"]}
    for policy in people.values():
        policy.attend()
    return Seats(
        episode_id=live.episode_id,
        seats=list(all_people),
        yours=list(people),
        deciding=live.deciding,
        turn=live.turn,
        paused=live.paused,
        asked=await _first_asked(live, people, sent.get("draft")),
    )


async def handle_act(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> Acted:
    """Decide for a seat of an episode that runs here."""
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
    """Return an episode's id and its seats that people play, at any server."""
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
    """Return the seats that these keys may play; without keys, the only seat."""
    if key is None:
        return list(people) if len(people) == 1 else []
    seats = services.seat_keys.seats(key, episode_id, people)
    if not seats:
        raise Refused(
            faults.NOT_YOUR_SEAT, "This key does not match a seat that a person plays in this episode."
        )
    return seats


def _draft_of(sent: str | None) -> list[dict[str, Any]] | None:
    if sent is None:
        return None
    try:
        return [call.model_dump() for call in _DRAFT.validate_json(sent)]
    except ValidationError as error:
        rule = "must be a JSON list of actions, each with tool and arguments"
        raise InvalidRequest([FieldError("draft", rule)]) from error


async def _first_asked(
    live: EpisodeHandle, people: Mapping[str, HumanPolicy], draft: Sequence[Mapping[str, Any]] | None
) -> AskedSeat | None:
    """Return the pending decision, with the draft weighed if the world can."""
    for actor, policy in people.items():
        shown, question = _asked(live, actor, policy), policy.asked
        if shown is not None and question is not None:
            if draft is not None and live.plan.world.weigh_draft is not None:
                shown.weighed = await run_in_threadpool(_weigh, live, policy, question.observation, draft)
            return shown
    return None


def _weigh(
    live: EpisodeHandle, policy: HumanPolicy, observation: Observation, draft: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what the world says of a draft; a draft that is not legal now is an answer, not an error."""
    weigh, legal = live.plan.world.weigh_draft, policy.briefing.legal(observation)
    assert weigh is not None
    try:
        calls = [check_call(WrittenCall(one["tool"], one["arguments"]), legal) for one in draft]
    except (CallRejected, UnsupportedSchema) as error:
        return {"refused": {"rule": "illegal", "message": str(error)}}
    return dict(weigh(observation, [policy.briefing.as_action(one.tool, one.arguments) for one in calls]))


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
        wrong.append(FieldError("turn", "is required: the turn from GET /custom/asked"))
    if not sent.action.tool:
        wrong.append(FieldError("action.tool", "is required: the name of a legal action"))
    return wrong


def _not_yours(actor: str | None, people: Sequence[str]) -> Refused:
    whose = f"the seat {actor!r}" if actor else f"one of the seats {', '.join(people)}"
    key = f"its key, from the answer to the start, in the header {SEAT_KEYS_HEADER}"
    detail = f"Deciding for {whose} needs {key}."
    return Refused(faults.NOT_YOUR_SEAT, detail)


def _whose_turn(live: EpisodeHandle, actor: str, turn: int | None) -> str:
    now, deciding = live.turn + 1, live.deciding
    if turn is not None and turn < now:
        so_far = f"Turn {turn} is already decided"
    elif turn is not None and turn > now:
        so_far = f"Turn {turn} has not come yet"
    else:
        so_far = f"{actor} has no pending decision"
    if deciding is None:
        return f"{so_far}; the world is computing turn {now}."
    return f"{so_far}; turn {now} is for {deciding} ({live.plan.preset(deciding).name}) to decide."


def _broken(rule: str, action: ChosenAction) -> FieldError:
    """Return the rule with the argument that breaks it, if it names one."""
    sentence = rule.removeprefix(f"{action.tool}: ")
    where, found, said = sentence.partition(": ")
    name = where.partition(".")[0].partition("[")[0]
    if found and name in action.arguments:
        return FieldError(f"action.arguments.{where}", said)
    if sentence != rule:
        return FieldError("action.arguments", sentence)
    return FieldError("action.tool", rule)
