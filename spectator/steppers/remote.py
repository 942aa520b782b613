"""What steppers of environments on other servers share: deadlines, and how an answer is read."""

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
"""The one actor of an environment on another server: whoever else plays there is its own affair."""

MAX_TEXT: Final = 8_192
"""Characters of an observation that an event keeps."""

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Longest answer that is read."""

LARGEST: Final = sys.float_info.max
"""Largest reward: a whole number may be larger than any float."""

CLOSE_S: Final = 2.0
"""Seconds that another server has to take note of the end."""

_Answer = TypeVar("_Answer")


class Observed(EventData):
    """An environment on another server, or somebody's own, showed something."""

    text: str = Field(description="The observation as JSON, capped at 8,192 characters")
    reward: float = Field(description="The reward of the step, as the environment gave it")
    total: float = Field(description="All rewards so far")


def observed(observation: Mapping[str, Any], reward: float, total: float) -> Observed:
    """What was shown, within bounds.

    Raises:
        ValueError: It is not finite JSON.
    """
    return Observed(text=clean_text(encode_json(dict(observation)), MAX_TEXT), reward=reward, total=total)


class RemoteCalls:
    """One episode with an environment on another server: calls with deadlines, and the sum of the rewards."""

    def __init__(self) -> None:
        self.given_up = False
        self._total = 0.0
        self._shown: Observation | None = None

    async def within(self, limit_s: float | None, answer: Coroutine[Any, Any, _Answer]) -> _Answer:
        """What the server answers.

        Raises:
            EnvironmentFault: The environment was given up before.
            StepTimeout: No answer within ``limit_s`` seconds; the environment is given up, since nobody knows
                whether what was asked of it was done.
        """
        if self.given_up:
            answer.close()
            raise EnvironmentFault("the environment was given up")
        try:
            async with asyncio.timeout(limit_s) as scope:
                return await answer
        except TimeoutError as error:
            if not scope.expired():
                raise EnvironmentFault(f"TimeoutError: {error}") from error
            self.given_up = True
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s") from error
        except asyncio.CancelledError:
            self.given_up = True  # what was asked of it may be under way: the next answer would be that one's
            raise

    def began(self, observation: Observation) -> Stepped:
        """The answer to ``reset``.

        Raises:
            EnvironmentMalformed: There is nothing to decide: a verdict on nobody.
        """
        if observation.done:
            raise EnvironmentMalformed("began with an episode that is over")
        self._total = 0.0
        return self._stepped(observation, {})

    def went_on(self, observation: Observation, state: Mapping[str, Any]) -> Stepped:
        """The answer to a step that was carried out, and the public state where it was the last."""
        self._total += observation.reward
        return self._stepped(observation, state)

    def refused(self, refusal: Refusal) -> Stepped:
        """The answer to a step that was not carried out: what was shown last, and why.

        Raises:
            EnvironmentFault: Nothing was shown yet.
        """
        shown = self._shown
        if shown is None:
            raise EnvironmentFault("nothing was begun; reset first")
        again = Observation(shown.actor, shown.legal_actions, shown.content, done=shown.done, refused=refusal)
        return Stepped(again, [], {})

    def _stepped(self, observation: Observation, state: Mapping[str, Any]) -> Stepped:
        self._shown = observation
        if observation.refused is not None:
            return Stepped(observation, [], state)
        try:
            fact = observed(observation.content, observation.reward, self._total)
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentMalformed(f"showed what is no plain finite JSON: {error}") from error
        return Stepped(observation, [Fact("remote.observed", fact.model_dump(mode="json"))], state)


def read_json(text: str | bytes) -> Any:
    """Strict JSON from another server.

    Raises:
        EnvironmentMalformed: It is none.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise EnvironmentMalformed(f"answered what is no JSON: {str(error)[:200]}") from error


def read_object(text: str | bytes) -> dict[str, Any]:
    """A JSON object from another server.

    Raises:
        EnvironmentMalformed: It is none.
    """
    value = read_json(text)
    if not isinstance(value, dict):
        raise EnvironmentMalformed(f"answered {type(value).__name__}, not a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def checked_prompt(prompt: object) -> list[Mapping[str, Any]]:
    """``prompt`` if it is a conversation: a list of objects that each have a ``role``.

    An empty list is a conversation too: it says that there is nothing more to decide.

    Raises:
        EnvironmentMalformed: It is anything else; the message says what.

    Example:
        >>> checked_prompt([{"role": "user", "content": "Go."}])
        [{'role': 'user', 'content': 'Go.'}]
        >>> checked_prompt("Go.")
        Traceback (most recent call last):
        ...
        spectator.errors.EnvironmentMalformed: the prompt is no list of messages but str
    """
    if not isinstance(prompt, (list, tuple)):
        raise EnvironmentMalformed(f"the prompt is no list of messages but {type(prompt).__name__}")
    for place, message in enumerate(prompt):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise EnvironmentMalformed(f"message {place} of the prompt is no object with a role")
    return list(prompt)


def read_reward(value: object) -> float:
    """A reward: a number or a truth value; ``null`` stands for none.

    Raises:
        EnvironmentMalformed: It is something else, or not finite.
    """
    if value is None:
        return 0.0
    if not isinstance(value, bool | int | float) or not abs(value) <= LARGEST:
        raise EnvironmentMalformed(f"gave the reward {str(value)[:80]!r}, which is not a finite number")
    return float(value)


def read_flag(name: str, value: object) -> bool:
    """A truth value; ``null`` stands for no.

    Raises:
        EnvironmentMalformed: It is something else.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    raise EnvironmentMalformed(f"answered {name} {str(value)[:80]!r}, which is neither true nor false")


def read_legal(value: object) -> list[LegalAction]:
    """Legal actions as this library's own servers list them.

    Raises:
        EnvironmentMalformed: They are listed otherwise.
    """
    found: list[LegalAction] = []
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict) or not isinstance(one.get("tool"), str):
            raise EnvironmentMalformed("lists a legal action that is no {tool, arguments}")
        arguments = one.get("arguments", {})
        if not isinstance(arguments, dict):
            raise EnvironmentMalformed(f"lists {one['tool'][:80]!r} with arguments that are no JSON schema")
        found.append({"tool": one["tool"], "arguments": arguments})
    return found
