"""A legal action drawn at random in place of a decision that failed, whether or not there was a restart."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.observations import Observation
from spectator.policies.base import Decision, Policy, ScriptedPolicy


@runtime_checkable
class FallsBack(Protocol):
    """What builds a policy with a fallback, and can build it with another."""

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> Callable[[int], Policy]:
        """The same, with ``fallback`` deciding where the policy does not."""
        ...


class DrawnPolicy(ScriptedPolicy):
    """Draws by what is seen alone, so that nothing has to be remembered of the draws before.

    Args:
        build: Makes a random captain from a seed.
        seed: Its own.
    """

    def __init__(self, build: Callable[[int], Policy], seed: int) -> None:
        self._build = build
        self._seed = seed
        self._drawn: Counter[str] = Counter()  # one that the world refuses is not drawn for ever

    def choose(self, observation: Observation) -> Decision:
        """Draw one legal action.

        Raises:
            ConfigurationError: The random captain is not a scripted one.
        """
        seen = hashlib.sha256(encode_json(dict(observation.content)).encode()).hexdigest()
        self._drawn[seen] += 1
        key = f"{self._seed}\x1f{seen}\x1f{self._drawn[seen]}"
        captain = self._build(int.from_bytes(hashlib.sha256(key.encode()).digest()[:6]))
        if not isinstance(captain, ScriptedPolicy):
            raise ConfigurationError("the random captain of a world must be a scripted policy")
        return captain.choose(observation)
