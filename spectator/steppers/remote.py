"""Common parts of steppers for environments on other servers: deadlines and parsing of answers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NoReturn, TypeVar

from pydantic import Field

from spectator.environments.contract import Stepped
from spectator.errors import EnvironmentFault, EnvironmentMalformed, StepTimeout
from spectator.events import EventData, Fact, encode_json
from spectator.observations import LegalAction, Observation, Refusal
from spectator.text import clean_text

AGENT: Final = "agent"
"""The only actor of an environment on another server; other players there are its own business."""

MAX_TEXT: Final = 8_192
"""Maximum characters of an observation in an event."""

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of an answer, in bytes."""

LARGEST: Final = sys.float_info.max
"""Largest reward; an integer could be larger than any float."""

CLOSE_S: Final = 2.0
"""Seconds that another server has to handle the close."""

_Answer = TypeVar("_Answer")


class Observed(EventData):
    """An environment on another server, or a user's own, returned an observation."""

    text: str = Field(description="The observation as JSON, capped at 8,192 characters")
    reward: float = Field(description="The reward of the step, as the environment gave it")
    total: float = Field(description="All rewards so far")


def observed(observation: Mapping[str, Any], reward: float, total: float) -> Observed:
    """Make the event of an observation, cut to its maximum length.

    Raises:
        ValueError: The observation is not finite JSON.
    """
    return Observed(text=clean_text(encode_json(dict(observation)), MAX_TEXT), reward=reward, total=total)


class RemoteStepper:
    """The common part of steppers on other servers: calls with deadlines, and the sum of the rewards.

    Such servers keep no snapshots and reveal no sealed truth.
    """

    def __init__(self) -> None:
        self.given_up = False
        """See :attr:`Stepper.given_up`."""
        self._total = 0.0
        self._shown: Observation | None = None

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`; always fails."""
        raise EnvironmentFault("the server keeps no snapshots")

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`; always fails."""
        raise EnvironmentFault("the server keeps no snapshots")

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`; always empty, as neither protocol has such a request."""
        return {}

    async def _within(self, limit_s: float | None, answer: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Await the server's answer with a deadline.

        Raises:
            EnvironmentFault: The environment was closed or abandoned before.
            StepTimeout: No answer within ``limit_s`` seconds; the environment is abandoned, because it is
                unknown whether the request was carried out.
        """
        if self.given_up:
            answer.close()
            raise EnvironmentFault("the environment was closed or abandoned")
        try:
            async with asyncio.timeout(limit_s) as scope:
                return await answer
        except TimeoutError as error:
            if not scope.expired():
                raise EnvironmentFault(f"TimeoutError: {error}") from error
            self.given_up = True
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s") from error
        except asyncio.CancelledError:
            self.given_up = True  # the request may be in progress, and its answer would come next
            raise

    def _began(self, observation: Observation) -> Stepped:
        """Return the answer to ``reset``.

        Raises:
            EnvironmentMalformed: The episode is already over, so that no decision would be scored.
        """
        if observation.done:
            raise EnvironmentMalformed("the episode is already over after reset")
        self._total = 0.0
        return self._stepped(observation, {})

    def _went_on(self, observation: Observation, state: Mapping[str, Any]) -> Stepped:
        """Return the answer to a step that was carried out; ``state`` is set after the last one."""
        self._total += observation.reward
        return self._stepped(observation, state)

    def _refused(self, refusal: Refusal) -> Stepped:
        """Return the answer to a refused step: the last observation with the refusal.

        Raises:
            EnvironmentFault: There is no observation yet.
        """
        shown = self._shown
        if shown is None:
            raise EnvironmentFault("there is no episode; call reset first")
        again = Observation(shown.actor, shown.legal_actions, shown.content, done=shown.done, refused=refusal)
        return Stepped(again, [], {})

    def _stepped(self, observation: Observation, state: Mapping[str, Any]) -> Stepped:
        self._shown = observation
        if observation.refused is not None:
            return Stepped(observation, [], state)
        try:
            fact = observed(observation.content, observation.reward, self._total)
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentMalformed(f"its observation is not plain finite JSON: {error}") from error
        return Stepped(observation, [Fact("remote.observed", fact.model_dump(mode="json"))], state)


def read_json(text: str | bytes) -> Any:
    """Parse strict JSON from another server.

    Raises:
        EnvironmentMalformed: It is not JSON.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise EnvironmentMalformed(f"its answer is not JSON: {str(error)[:200]}") from error


def read_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object from another server.

    Raises:
        EnvironmentMalformed: It is not a JSON object.
    """
    value = read_json(text)
    if not isinstance(value, dict):
        raise EnvironmentMalformed(f"its answer is {type(value).__name__}, not a JSON object")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def checked_prompt(prompt: object) -> list[Mapping[str, Any]]:
    """Return ``prompt`` if it is a conversation: a list of objects that each have a ``role``.

    An empty list is a conversation too: it means that there is nothing more to decide.

    Raises:
        EnvironmentMalformed: It is not a conversation; the message says why.

    Example:
        >>> checked_prompt([{"role": "user", "content": "Go."}])
        [{'role': 'user', 'content': 'Go.'}]
        >>> checked_prompt("Go.")
        Traceback (most recent call last):
        ...
        spectator.errors.EnvironmentMalformed: the prompt is not a list of messages but str
    """
    if not isinstance(prompt, (list, tuple)):
        raise EnvironmentMalformed(f"the prompt is not a list of messages but {type(prompt).__name__}")
    for place, message in enumerate(prompt):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise EnvironmentMalformed(f"message {place} of the prompt is not an object with a role")
    return list(prompt)


def read_reward(value: object) -> float:
    """Parse a reward: a number or a boolean; ``null`` means 0.

    Raises:
        EnvironmentMalformed: It is something else, or not finite.
    """
    if value is None:
        return 0.0
    if not isinstance(value, bool | int | float) or not abs(value) <= LARGEST:
        raise EnvironmentMalformed(f"gave the reward {str(value)[:80]!r}, which is not a finite number")
    return float(value)


def read_flag(name: str, value: object) -> bool:
    """Parse a boolean; ``null`` means false.

    Raises:
        EnvironmentMalformed: It is something else.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    raise EnvironmentMalformed(f"{name} is {str(value)[:80]!r}, which is neither true nor false")


def read_legal(value: object) -> list[LegalAction]:
    """Parse legal actions in the form of this library's servers.

    Raises:
        EnvironmentMalformed: They have another form.
    """
    found: list[LegalAction] = []
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict) or not isinstance(one.get("tool"), str):
            raise EnvironmentMalformed("a legal action must have the form {tool, arguments}")
        arguments = one.get("arguments", {})
        if not isinstance(arguments, dict):
            raise EnvironmentMalformed(
                f"the arguments of the legal action {one['tool'][:80]!r} must be a JSON schema"
            )
        found.append({"tool": one["tool"], "arguments": arguments})
    return found
