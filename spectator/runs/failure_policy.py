"""What becomes of a job whose episode failed: it stands, is tried again, or halts the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spectator.errors import CANNOT_RECORD, SAYS_NOTHING, FailureClass

Reaction = Literal["keep", "retry", "halt"]
"""What a run does after a failure.

``keep``: the episode stands as it ended, and the job is over. ``retry``: another attempt, from the beginning.
``halt``: the run stops; the job is still owed, and is tried again when the run goes on.
"""


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """Which classes of failure are tried again, and which halt the run; all others are kept.

    Args:
        retry: Classes of failure after which a job is tried again.
        halt: Classes after which the run stops.
        attempts: Most attempts at a job, at least 1; ``None`` for no limit. After the last one the episode
            is kept, so that nothing is tried for ever.

    Raises:
        ValueError: A class is in both, or ``attempts`` is less than 1.

    >>> policy = FailurePolicy(retry=frozenset({"env_infra"}), attempts=2)
    >>> [policy.after("env_infra", attempt) for attempt in (1, 2)]
    ['retry', 'keep']
    >>> policy.after("illegal_action", 1), policy.after(None, 1)
    ('keep', 'keep')
    """

    retry: frozenset[FailureClass] = SAYS_NOTHING
    halt: frozenset[FailureClass] = CANNOT_RECORD
    attempts: int | None = None

    def __post_init__(self) -> None:
        if both := self.retry & self.halt:
            raise ValueError(f"{', '.join(sorted(both))} cannot be tried again and halt the run")
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")

    def after(self, failure_class: FailureClass | None, attempt: int) -> Reaction:
        """What to do.

        Args:
            failure_class: How the attempt failed; ``None`` where it finished.
            attempt: Its number, from 1.
        """
        if failure_class in self.halt:
            return "halt"
        again = failure_class in self.retry and (self.attempts is None or attempt < self.attempts)
        return "retry" if again else "keep"
