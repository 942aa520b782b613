"""Objects of this process with ``get_task_prompt()`` and ``step(text)`` as environments of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from spectator.catalog import import_object
from spectator.environments.world import World
from spectator.errors import EnvironmentFault, EnvironmentMalformed
from spectator.events import Fact
from spectator.observations import Observation
from spectator.policies.policy import Action
from spectator.steppers.local import ThreadStepper
from spectator.steppers.remote import AGENT, checked_prompt, observed, read_flag, read_json, read_reward
from spectator.steppers.remote_world import text_world


class PromptObject(Protocol):
    """What :class:`PromptEnvironment` needs; ``reset(seed)`` and ``close()`` are called if they exist."""

    def get_task_prompt(self) -> Any:
        """Return the agent's chat messages; an empty list ends the episode."""

    def step(self, action: str) -> Any:
        """Take the model's text; return ``reward``, ``terminated``, ``truncated`` and ``info``."""


class PromptEnvironment:
    """An :class:`~spectator.environments.contract.Environment` around an object with two methods.

    ``get_task_prompt`` returns a list of messages, and ``step`` a mapping with ``reward`` and optionally
    ``terminated``, ``truncated`` and ``info``. Each may also be JSON text or bytes, or an object with
    ``model_dump()``; ``step`` may return ``(reward, terminated, truncated, info)``.

    Args:
        make: Makes the object of one episode. It is called with the run's options as keywords, and with
            ``seed`` if it has a parameter of that name.

    >>> class Adder:
    ...     def get_task_prompt(self):
    ...         return [{"role": "user", "content": "1 + 1?"}]
    ...     def step(self, action):
    ...         return {"reward": float(action == "2"), "terminated": True}
    >>> adder = PromptEnvironment(Adder)
    >>> adder.reset(seed=1, episode_id="ep-1", options={}).content["prompt"]
    [{'role': 'user', 'content': '1 + 1?'}]
    >>> adder.step({"text": "2"}).reward
    1.0
    """

    def __init__(self, make: Callable[..., PromptObject]) -> None:
        self._make = make
        self._object: PromptObject | None = None
        self._episode_id = ""
        self._total = 0.0
        self._facts: list[Fact] = []

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Make the object and ask it for its first prompt."""
        self.close()
        self._episode_id, self._total, self._facts = episode_id, 0.0, []
        self._object = made = self._make(**options, **_seed_of(self._make, seed))
        if callable(begin := getattr(made, "reset", None)):
            begin(**_seed_of(begin, seed))
        prompt = checked_prompt(_plain(made.get_task_prompt(), "get_task_prompt"))
        if not prompt:
            raise EnvironmentMalformed("the prompt is empty before the first step")
        return self._shown({"prompt": prompt}, 0.0, done=False)

    def step(self, action: Action) -> Observation:
        """Pass the text of ``action`` on, and ask for the next prompt."""
        if self._object is None:
            raise EnvironmentFault("there is no episode; call reset first")
        answer = _plain(self._object.step(action["text"]), "step")
        if isinstance(answer, tuple) and len(answer) == 4:
            answer = dict(zip(("reward", "terminated", "truncated", "info"), answer, strict=True))
        if not isinstance(answer, Mapping) or "reward" not in answer:
            raise EnvironmentMalformed(
                f"step returned {type(answer).__name__}; return a mapping with reward, terminated, truncated "
                "and info, or these four as a tuple"
            )
        reward = read_reward(answer["reward"])
        terminated = read_flag("terminated", answer.get("terminated"))
        truncated = read_flag("truncated", answer.get("truncated"))
        prompt: list[Mapping[str, Any]] = []
        if not (terminated or truncated):
            prompt = checked_prompt(_plain(self._object.get_task_prompt(), "get_task_prompt"))
        info = answer.get("info")
        content = {"prompt": prompt, **({"info": dict(info)} if isinstance(info, Mapping) else {})}
        cut = {"truncated": "the environment cut the episode off"} if truncated and not terminated else {}
        return self._shown(content, reward, done=not prompt, metadata=cut)

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the id of the episode; the object publishes no other state."""
        return {"episode_id": self._episode_id}

    def snapshot(self) -> NoReturn:
        """Fail: the object keeps no snapshots."""
        raise EnvironmentFault("the object keeps no snapshots")

    def restore(self, snapshot: bytes) -> NoReturn:
        """Fail: the object keeps no snapshots."""
        raise EnvironmentFault("the object keeps no snapshots")

    def facts(self) -> Sequence[Fact]:
        """Return the observation that was not read yet."""
        facts, self._facts = self._facts, []
        return facts

    def truth(self) -> Mapping[str, Any]:
        """Return nothing: nothing is known to be hidden."""
        return {}

    def close(self) -> None:
        """Call the object's ``close``, if it has one; errors are ignored."""
        ended, self._object = self._object, None
        if callable(close := getattr(ended, "close", None)):
            with suppress(Exception):
                close()

    def _shown(
        self,
        content: Mapping[str, Any],
        reward: float,
        *,
        done: bool,
        metadata: Mapping[str, Any] | None = None,
    ) -> Observation:
        self._total += reward
        try:
            fact = observed(content, reward, self._total)
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentMalformed(f"its prompt or info is not plain finite JSON: {error}") from error
        self._facts = [Fact("remote.observed", fact.model_dump(mode="json"))]
        actor = None if done else AGENT
        return Observation(actor, (), content, reward=reward, done=done, metadata=metadata or {})


def prompt_world(make: Callable[..., PromptObject], *, max_steps: int = 1000) -> World:
    """Make the world of objects with ``get_task_prompt()`` and ``step(text)``, each on its own thread.

    Args:
        make: See :class:`PromptEnvironment`.
        max_steps: Steps after which an episode is truncated.
    """
    return text_world(
        getattr(make, "__name__", type(make).__name__),
        summary="Played by an object of this process.",
        open_stepper=lambda episode_id: ThreadStepper(
            lambda: PromptEnvironment(make), name=episode_id, dispose=PromptEnvironment.close
        ),
        max_steps=max_steps,
    )


def import_prompt_world(name: str, *, max_steps: int = 1000) -> World:
    """Make the world of ``module:name``, a class or function that makes such objects.

    Raises:
        ConfigurationError: It cannot be imported or called.
    """
    return prompt_world(import_object(name, "the environment"), max_steps=max_steps)


def _seed_of(function: Callable[..., Any], seed: int) -> dict[str, int]:
    """Return ``{"seed": seed}`` if ``function`` has a parameter of that name."""
    try:
        return {"seed": seed} if "seed" in inspect.signature(function).parameters else {}
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}


def _plain(value: Any, method: str) -> Any:
    """Return the content of JSON text, or of an object with ``model_dump()``."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise EnvironmentMalformed(f"{method} is async; make it an ordinary method, it has its own thread")
    if isinstance(value, bytes | bytearray | memoryview | str):
        return read_json(value if isinstance(value, str) else bytes(value))
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value
