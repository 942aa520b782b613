"""The conformance kit: checks that every world must pass, built-in or from another package.

from spectator.environments.conformance import check_world
check_world(WORLD)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from spectator.core_events import CORE_EVENTS
from spectator.environments.contract import MAX_OBSERVATION_BYTES, Environment
from spectator.environments.world import MAX_PICTURE_BYTES, World, derive_seed
from spectator.events import Event, Fact, encode_json
from spectator.json_values import apply_patch
from spectator.observations import Observation, Profile
from spectator.policies.policy import Action, ScriptedPolicy

MALFORMED: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"nonsense": 1},
    {"tool": None},
    {"text": None},
    {"tool": "no_such_tool", "arguments": {"x": [[[[]]]]}},
    {"text": "no action here"},
    {"tool": 7, "arguments": "text"},
)
"""Actions that every world must refuse."""

ANALYSED: Final = (0.0, 0.4, 0.8)
"""Positions in an episode, as fractions, at which its analyst is checked."""


class ConformanceError(AssertionError):
    """A world breaks its contract; the message lists how."""


@dataclass(slots=True)
class Playthrough:
    """One played episode.

    Args:
        actions: The actions, in order.
        trace: The encoded answers to ``reset`` and to every step: observation, facts and state.
        facts: All facts.
        finished: Whether the world ended.
    """

    actions: list[Action] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    finished: bool = False


def check_world(world: World, *, options: Mapping[str, Any] | None = None, seed: int = 1) -> None:
    """Play a world with its default and its random captain, and check its whole contract.

    Args:
        world: The world.
        options: Options to play with; omitted ones take their defaults.
        seed: Seed of the episodes.

    Raises:
        ConformanceError: The world breaks the contract; the message lists every finding.

    >>> from spectator.environments.counting import WORLD
    >>> check_world(WORLD)
    """
    complete = world.options_type.model_validate(dict(options or {})).model_dump(mode="json")
    findings = [*_check_catalogue(world)]
    if not findings:
        for captain in dict.fromkeys((world.default_captain, *(n for n in world.captains if n == "random"))):
            findings += [f"{captain}: {finding}" for finding in _check_play(world, complete, seed, captain)]
    if findings:
        raise ConformanceError(f"{world.name}:\n  " + "\n  ".join(dict.fromkeys(findings)))


def play(
    world: World, options: Mapping[str, Any], seed: int, captain: str, environment: Environment | None = None
) -> Playthrough:
    """Play one episode without a driver, the captain in every seat.

    Args:
        world: The world.
        options: Complete options.
        seed: The episode's seed.
        captain: Name of a scripted preset.
        environment: The environment to use; a new one by default.
    """
    environment = environment or world.environment()
    policies = {
        actor: world.captains[captain].build(derive_seed(seed, "policy", actor)) for actor in world.actors
    }
    played = Playthrough()
    observation = environment.reset(seed=seed, episode_id="conformance", options=options)
    _note(played, environment, observation)
    while not observation.done and len(played.actions) < world.step_cap(options):
        policy = policies[observation.actor or ""]
        if not isinstance(policy, ScriptedPolicy):
            raise ConformanceError(f"{captain} is not a scripted policy; the kit plays scripted ones")
        action = policy.choose(observation).action
        observation = environment.step(action)
        played.actions.append(action)
        _note(played, environment, observation)
    played.finished = observation.done
    return played


def _note(played: Playthrough, environment: Environment, observation: Observation) -> None:
    facts = environment.facts()
    played.facts.extend(facts)
    played.trace.append(
        encode_json(
            {
                "observation": observation.to_json(),
                "reward": observation.reward,
                "done": observation.done,
                "facts": [[fact.type, fact.data] for fact in facts],
                "state": environment.state,
            }
        )
    )


def _check_catalogue(world: World) -> Iterator[str]:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", world.name):
        yield f"the name {world.name!r} does not match [a-z][a-z0-9_]*"
    if not world.actors:
        yield "it has no actor"
    if world.default_captain not in world.captains:
        yield f"the default captain {world.default_captain!r} is not among the captains"
    if world.opponents and world.default_opponent not in world.opponents:
        yield f"the default opponent {world.default_opponent!r} is not among the opponents"
    if len(world.actors) > 1 and not world.opponents:
        yield "it has several actors but no opponents"
    if "default" not in world.packs:
        yield "it has no pack called 'default'"
    required = [info for info in world.action_type.model_fields.values() if info.is_required()]
    if len(required) != 1 and world.profile.actions != "schema":
        yield f"an action has {len(required)} required fields, not exactly one"
    elif world.profile.actions == "text" and required[0].annotation is not str:
        yield "the actions are text, but the required field of an action is not a str"
    for presets in (world.captains, world.opponents, world.packs):
        yield from (
            f"{name!r} is listed as {entry.name!r}" for name, entry in presets.items() if name != entry.name
        )
    for name in world.events:
        if not re.fullmatch(rf"{world.name}\.[a-z_]+", name) or name in CORE_EVENTS:
            yield f"the event type {name!r} must be {world.name}.something"
    for name in world.beats:
        if name not in world.events:
            yield f"the beat {name!r} is not an event type of this world"
    for name in world.chapters:
        if name not in world.events:
            yield f"the chapter {name!r} is not an event type of this world"
    for name, chosen in (("watched", world.watched_options), ("collected", world.collected_options)):
        try:
            world.options_type.model_validate(dict(chosen))
        except ValidationError as error:
            yield f"the {name} options are invalid: {error}"
    for name, pack in world.packs.items():
        try:
            world.options_type.model_validate(dict(pack.options))
        except ValidationError as error:
            yield f"the pack {name!r} fixes invalid options: {error}"


def _check_play(world: World, options: Mapping[str, Any], seed: int, captain: str) -> Iterator[str]:
    environment = world.environment()
    played = play(world, options, seed, captain, environment)
    if not played.finished:
        yield f"the episode did not end within the step cap of {world.step_cap(options)} turns"
        return
    yield from _check_after_the_end(environment)
    yield from _check_trace(world, played, world.profile_of(options))
    if play(world, options, seed, captain).trace != played.trace:
        yield "the same seed and policies gave a different episode in a new environment"
    if play(world, options, seed, captain, environment).trace != played.trace:
        yield "the same seed gave a different episode in a reused environment"
    yield from _check_along_the_way(world, options, seed, played)
    yield from _check_projection(world, options, played)
    yield from _check_analyst(world, options, seed, played)


def _check_after_the_end(environment: Environment) -> Iterator[str]:
    for action in ({}, {"text": "ACTION: 1"}, {"tool": "anything"}):
        late = environment.step(action)
        if late.refused is None or not late.done:
            yield "an action after the end is not refused, or done does not stay true"
        if environment.facts():
            yield "an action after the end has facts"


def _check_trace(world: World, played: Playthrough, profile: Profile) -> Iterator[str]:
    for number, text in enumerate(played.trace):
        step, last = json.loads(text), number == len(played.trace) - 1
        if len(text.encode()) >= MAX_OBSERVATION_BYTES:
            yield f"step {number} is {len(text)} characters long"
        yield from _validate(f"observation {number}", world.observation_type, step["observation"])
        yield from _validate(f"state {number}", world.state_type, step["state"])
        for kind, data in step["facts"]:
            if kind not in world.events:
                yield f"the event type {kind!r} of a fact is not declared"
            else:
                yield from _validate(kind, world.events[kind], data)
        if step["done"] != last:
            yield f"done is {step['done']} at step {number} of {len(played.trace) - 1}"
        if (broken := profile.broken_by(step["reward"], done=last)) is not None:
            yield f"{broken} (step {number})"
        if number == 0 and step["reward"] and not last:
            yield f"the reward is {step['reward']} before the first action"
        listed, tools = bool(step["observation"]["legal_actions"]), world.profile.actions == "tools"
        if not last and tools and not listed:
            yield f"no action is legal at step {number}"
        if listed and not tools:
            yield f"step {number} lists legal actions, but the profile's actions are {world.profile.actions}"
    if (broken := profile.score_broken_by(_score(played))) is not None:
        yield broken


def _score(played: Playthrough) -> float:
    """Return the sum of all rewards, added in the order of the steps."""
    rewards: list[float] = [json.loads(text)["reward"] for text in played.trace]
    return sum(rewards)


def _validate(what: str, model: Any, data: Any) -> Iterator[str]:
    try:
        model.model_validate(data)
    except ValidationError as error:
        wrong = error.errors()[0]
        yield f"{what} does not fit {model.__name__}: {wrong['loc']}: {wrong['msg']}"


def _check_along_the_way(
    world: World, options: Mapping[str, Any], seed: int, played: Playthrough
) -> Iterator[str]:
    """Check that refusals change nothing, truth stays hidden, and a snapshot has the same future."""
    environment = world.environment()
    environment.reset(seed=seed, episode_id="conformance", options=options)
    environment.facts()
    stops = {0, 1, len(played.actions) // 3, 2 * len(played.actions) // 3}
    for number, action in enumerate(played.actions):
        if number in stops:
            yield from _check_refusals(world, environment)
            if environment.truth():
                yield "the truth is readable before the end"
            yield from _check_future(world, environment, played, number)
        shown = environment.step(action)
        environment.facts()
        yield from _check_question(world, shown, number + 1)


def _check_question(world: World, shown: Observation, number: int) -> Iterator[str]:
    """Check that viewers are offered different calls, which an analyst can score."""
    question = None if world.question is None or shown.done else world.question(shown)
    if question is None:
        return
    if world.analyst is None:
        yield f"at decision {number} viewers are asked, but there is no analyst to score them"
    offered = [(encode_json(card.action), card.words) for card in question.cards]
    if len(offered) != 3 or any(len(set(part)) != 3 for part in zip(*offered, strict=True)):
        yield f"at decision {number} viewers are not offered three different calls"
    if question.actor not in world.actors or not question.words:
        yield f"at decision {number} viewers are asked for no actor, or without words"


def _malformed(world: World) -> Iterator[Mapping[str, Any]]:
    """Yield actions that the world must refuse; without tools, those that do not match its schema."""
    for action in MALFORMED:
        if world.profile.actions == "tools" or not _fits(world.action_type, action):
            yield action


def _fits(model: Any, data: Any) -> bool:
    try:
        model.model_validate(data)
    except ValidationError:
        return False
    return True


def _check_refusals(world: World, original: Environment) -> Iterator[str]:
    """Check refusals on a copy of the environment, because a world may count and score them."""
    environment = world.environment()
    shown = environment.restore(original.snapshot())
    before, answer = encode_json(environment.state), shown
    for action in _malformed(world):
        answer = environment.step(action)
        if answer.refused is None:
            yield f"the malformed action {action} is accepted"
        elif not answer.refused.rule or not answer.refused.message:
            yield f"the refusal of {action} has no rule or no message"
        if answer.done or answer.reward or environment.facts():
            yield f"the refused action {action} ended the episode, was rewarded, or has facts"
    if encode_json(environment.state) != before or answer.actor != shown.actor:
        yield "refused actions changed the state"


def _check_future(world: World, environment: Environment, played: Playthrough, number: int) -> Iterator[str]:
    twin, future = world.environment(), Playthrough()
    twin.restore(environment.snapshot())
    for action in played.actions[number:]:
        _note(future, twin, twin.step(action))
    if future.trace != played.trace[number + 1 :]:
        yield f"a snapshot taken at step {number} has a different future"
    yield from _check_other_id(world, environment)


def _check_analyst(world: World, options: Mapping[str, Any], seed: int, played: Playthrough) -> Iterator[str]:
    """Check an analyst at a few decisions: order, the made decision, and equal results."""
    if world.analyst is None:
        return
    wanted = {round(share * (len(played.actions) - 1)) for share in ANALYSED}
    first = world.analyst()
    first.reset(seed=seed, episode_id="conformance", options=options)
    for number, action in enumerate(played.actions):
        if number in wanted:
            found = first.alternatives(action)
            again = world.analyst()
            again.reset(seed=seed, episode_id="another", options=options)
            for before in played.actions[:number]:
                again.step(before)
            if again.alternatives(action) != found:
                yield f"at decision {number} another analyst gives different alternatives"
            gains = [one.gain for one in found.best]
            if found.best and (sum(one.played for one in found.best) != 1 or gains != sorted(gains)[::-1]):
                yield f"at decision {number} the alternatives are unsorted, or not exactly one was played"
            if not all(0 <= one.chance <= 1 and one.words for one in found.best) or not found.how:
                yield f"at decision {number} an alternative has no words or no chance"
        first.step(action)


def _check_other_id(world: World, environment: Environment) -> Iterator[str]:
    """Check that a snapshot converted for another episode differs only in its id."""
    if world.snapshot_for is None:
        return
    own, twin = environment.snapshot(), world.environment()
    twin.restore(world.snapshot_for(own, "another"))
    if twin.state != {**environment.state, "episode_id": "another"}:
        yield "snapshot_for makes a snapshot whose state differs in more than the episode id"
    if world.snapshot_for(twin.snapshot(), environment.state["episode_id"]) != own:
        yield "snapshot_for changes more of a snapshot than the episode's id"


def _check_projection(world: World, options: Mapping[str, Any], played: Playthrough) -> Iterator[str]:
    """The world's projection is total and pure, and its state can travel by merge patch."""
    seats = {actor: {"policy": "x", "label": "x", "source": "heuristic"} for actor in world.actors}
    started = {"options": options, "seats": seats, "agent": world.actors[0], "seed": 1}
    state: Mapping[str, Any] = {"episode": started, "decisions": {}}
    facts = [Fact("episode.started", started), *played.facts, Fact("x.unknown", {})]
    for seq, fact in enumerate(facts, 1):
        event = Event("conformance", "e", seq, "2026-01-01T00:00:00.000Z", seq, fact.type, fact.data)
        before = encode_json(state)
        patch = world.projection(state, event)
        if encode_json(world.projection(state, event)) != encode_json(patch) or encode_json(state) != before:
            yield f"the projection of {fact.type} is not pure"
        state = apply_patch(state, {"world": patch} if patch else {})
        if _holds_null(state.get("world")):
            yield f"the state contains null after {fact.type}"
        yield from _check_glance(state.get("world", {}))
        yield from _check_picture(world, state.get("world", {}))
        for line in world.commentator(event, state):
            if not line.text or len(line.text) > 300 or not 0 <= line.priority <= 3:
                yield f"the line {line.text[:40]!r} on {fact.type} is empty, too long or has no priority"
            if line.reply is not None and not 0 < len(line.reply) <= 300:
                yield f"the reply to the line {line.text[:40]!r} on {fact.type} is empty or too long"


def _check_glance(world: Mapping[str, Any]) -> Iterator[str]:
    """Check what lists and tiles show; see :class:`spectator.environments.contract.Projection`."""
    if not isinstance(world.get("headline", ""), str):
        yield "the headline is not a text"
    glance = world.get("glance", {})
    if unknown := set(glance) - {"step", "at", "progress", "value", "unit", "suspense"}:
        yield f"the glance has unknown members: {', '.join(sorted(unknown))}"
    for name in ("progress", "suspense"):
        if not 0 <= glance.get(name, 0) <= 1:
            yield f"the glance's {name} is not in [0, 1]"
    if type(glance.get("step", 0)) is not int:
        yield "the glance's step is not an integer"


def _check_picture(world: World, own: Mapping[str, Any]) -> Iterator[str]:
    """Check the data that ``tile.js`` draws; see :attr:`spectator.environments.world.World.picture`."""
    picture = {} if world.picture is None else world.picture(own)
    if _holds_null(picture):
        yield "the picture contains null"
    elif (size := len(encode_json(picture).encode())) > MAX_PICTURE_BYTES:
        yield f"the picture has {size} bytes; the maximum is {MAX_PICTURE_BYTES}"
    count = len(world.chances(own)) if world.chances is not None else 0
    if any(type(mark) is not int or not 0 <= mark < count for mark in picture.get("marks", ())):
        yield f"the picture's marks are not among its {count} chances"


def _holds_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(item is None or _holds_null(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(item is None or _holds_null(item) for item in value)
    return False
