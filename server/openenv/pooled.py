"""Environments by the routes of pooled rollout servers: chat messages out, text in, every step once."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import Request

from spectator.environments.world import World
from spectator.errors import FieldError, InvalidRequest
from spectator.events import encode_json
from spectator.llm.chat import Message
from spectator.llm.parsing import CallRefused
from spectator.observations import Observation, Refusal
from spectator.policies.answers import action_in
from spectator.policies.history import History, TokenEstimate, Turn
from spectator.policies.prompting import as_json, correction, instructions, question, situation

from ..security.bodies import read_object
from .session import Session
from .wire import ResetRequest, wrong_fields

ROOM: Final = 32_000
"""Estimated tokens of a prompt; the oldest turns are left out beyond that."""

REMEMBERED: Final = 16
"""Newest steps of an environment whose answers are kept, for clients that ask again."""

MAX_ACTION: Final = 64 * 1024
"""Characters of an action beyond which it is refused."""


class PooledEnvironment:
    """One environment that a client named, with the conversation that its agent has.

    Args:
        session: The environment.
        world: What it plays.
    """

    def __init__(self, session: Session, world: World) -> None:
        self.session = session
        self._briefing = world.briefing
        self._turn = asyncio.Lock()
        self._answers: OrderedDict[str, str] = OrderedDict()
        self._stepping: set[asyncio.Task[str]] = set()
        self._shown: Observation | None = None
        self._history = History(ROOM, TokenEstimate())
        self._note = ""

    @property
    def done(self) -> bool:
        """Whether its episode is over, or none was begun."""
        return self._shown is None or self._shown.done

    async def reset(self, asked: ResetRequest) -> None:
        """Begin an episode; what was said in the one before is forgotten.

        Raises:
            InvalidRequest: A parameter is wrong; the episode under way goes on.
            EpisodeError: The world failed.
        """
        async with self._turn:
            answer = await self.session.reset(asked)
            self._shown = _observation(answer.text)
            self._history, self._note = History(ROOM, TokenEstimate()), ""
            self._answers.clear()

    def prompt(self) -> Sequence[Message]:
        """What the agent is to be asked; empty when there is nothing more to decide."""
        shown, briefing = self._shown, self._briefing
        if shown is None or shown.done:
            return []
        in_text = briefing.text_field is not None
        system = instructions(shown.actor or "", briefing.task, "json", 1, free_text=in_text)
        legal = () if in_text else briefing.legal(shown)
        return self._history.messages(system, question(self._text(shown), legal, "json", self._note))

    async def step(self, said: str, step_id: str | None) -> str:
        """Carry out what the agent said, once: the same ``step_id`` is answered from memory.

        It is carried out to its end also when its client goes away meanwhile.

        Raises:
            NoEpisode: There is nothing to step.
            EpisodeError: The world failed.
        """
        task = asyncio.get_running_loop().create_task(self._step(said, step_id))
        self._stepping.add(task)
        task.add_done_callback(self._stepping.discard)
        return await asyncio.shield(task)

    async def _step(self, said: str, step_id: str | None) -> str:
        async with self._turn:
            if step_id is not None and step_id in self._answers:
                return self._answers[step_id]
            answer = encode_json({**await self._carried_out(said), "step_id": step_id})
            if step_id is not None:
                self._answers[step_id] = answer
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
            return answer

    async def _carried_out(self, said: str) -> dict[str, Any]:
        before = self._shown
        if before is not None and not before.done:
            try:
                action = action_in(said, self._briefing, before)
            except CallRefused as error:
                self._remember(before, said, correction(str(error)))
                return _result(0.0, False, None, {"refused": str(error)})
        else:
            action = {}  # the session says that there is nothing to step
        answer = await self.session.step(dict(action))
        shown = self._shown = _observation(answer.text)
        if before is not None:
            self._remember(before, said, "")
        info = {} if shown.refused is None else {"refused": shown.refused.message}
        return _result(shown.reward, shown.done, shown.metadata.get("truncated"), info)

    def _remember(self, before: Observation, said: str, note: str) -> None:
        self._history.add(Turn(seen=situation(before), shown=self._text(before), text=said))
        self._note = note

    def _text(self, shown: Observation) -> str:
        render = self._briefing.render
        return as_json(situation(shown)) if render is None else render(shown)


def read_reset(env_id: str, sent: dict[str, Any]) -> ResetRequest:
    """What is asked for by ``{"env_param", "seed"}``.

    Raises:
        InvalidRequest: Names every wrong field.
    """
    options = sent.get("env_param") or {}
    if not isinstance(options, dict):
        raise InvalidRequest([FieldError("env_param", "must be an object of the world's options")])
    if "observe" in options:
        raise InvalidRequest([FieldError("observe", "cannot be chosen here: the prompt tells the situation")])
    try:
        return ResetRequest.model_validate({"seed": sent.get("seed"), "episode_id": env_id, **options})
    except ValidationError as error:
        raise wrong_fields(error) from error


async def read_step(request: Request) -> tuple[str, str | None]:
    """The action and the step's id.

    Raises:
        InvalidRequest: Names the wrong field.
    """
    sent = await read_object(request)
    action, step_id = sent.get("action"), sent.get("step_id")
    if not isinstance(action, str) or len(action) > MAX_ACTION:
        raise InvalidRequest([FieldError("action", f"must be a text of at most {MAX_ACTION} characters")])
    if step_id is not None and not (isinstance(step_id, str) and 0 < len(step_id) <= 255):
        raise InvalidRequest([FieldError("step_id", "must be a text of 1 to 255 characters, or left out")])
    return action, step_id


def _observation(text: str) -> Observation:
    data = json.loads(text)
    shown = dict(data["observation"])
    actor, legal = shown.pop("actor", None), shown.pop("legal_actions", None) or []
    metadata = shown.pop("metadata", None) or {}
    shown.pop("refused", None)
    refused = data["observation"].get("refused")
    return Observation(
        actor, legal, shown, reward=data["reward"], done=data["done"],
        refused=None if refused is None else Refusal(refused["rule"], refused["message"]), metadata=metadata,
    )  # fmt: skip


def _result(reward: float, done: bool, truncated: object, info: dict[str, Any]) -> dict[str, Any]:
    cut = bool(done and truncated)
    return {"reward": reward, "terminated": done and not cut, "truncated": cut, "info": info}
