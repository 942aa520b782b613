"""A curriculum: the difficulty tier rises while the agent succeeds and falls while it fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.errors import ConfigurationError

FORMAT: Final = 1
"""Version of the JSON state."""


@dataclass(frozen=True, slots=True)
class CurriculumRules:
    """When the tier changes.

    Args:
        window: Newest episodes of a tier that count, at least 1.
        least: Episodes on a tier before it may change, 1 .. ``window``.
        promote: The tier rises at this share of successes or more, 0 .. 1.
        demote: The tier falls at this share of successes or less; less than ``promote``.

    Raises:
        ValueError: A value is out of range; the message names it.
    """

    window: int = 24
    least: int = 12
    promote: float = 0.55
    demote: float = 0.10

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError("window must be at least 1")
        if not 1 <= self.least <= self.window:
            raise ValueError("least must be from 1 to window")
        if not 0.0 <= self.demote < self.promote <= 1.0:
            raise ValueError("0 <= demote < promote <= 1 must hold")


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int
    tiers: list[str]
    tier: str
    recent: list[bool]
    episodes: int = Field(ge=0)


class Curriculum:
    """Chooses the tier of the next episode by the results of the last ones.

    Args:
        tiers: Names of the tiers, easiest first; no duplicates.
        rules: When the tier changes.

    Example:
        >>> curriculum = Curriculum(["easy", "hard"], CurriculumRules(window=2, least=2))
        >>> curriculum.record(True), curriculum.record(True), curriculum.tier
        (None, 'promoted', 'hard')

    Raises:
        ValueError: There is no tier, or one occurs twice.
    """

    def __init__(self, tiers: Sequence[str], rules: CurriculumRules | None = None) -> None:
        if not tiers or len(set(tiers)) != len(tiers):
            raise ValueError("tiers must hold at least one name and no duplicates")
        self._tiers = list(tiers)
        self._rules = rules or CurriculumRules()
        self._place = 0
        self._recent: deque[bool] = deque(maxlen=self._rules.window)
        self._episodes = 0

    @property
    def tier(self) -> str:
        """Tier of the next episode."""
        return self._tiers[self._place]

    @property
    def episodes(self) -> int:
        """Episodes recorded, over all tiers."""
        return self._episodes

    def record(self, success: bool | None) -> str | None:
        """Record the result of an episode of the current tier.

        Args:
            success: Whether it succeeded; ``None`` for an episode without a verdict (the environment or the
                endpoint failed), which is ignored.

        Returns:
            ``promoted`` or ``demoted`` if the tier changed, else ``None``; a new tier starts afresh.

        Raises:
            ValueError: ``success`` is another value, such as a share; nothing changes.
        """
        if success is None:
            return None
        if success not in (True, False):
            raise ValueError(f"success must be True, False or None, not {success!r}")
        self._episodes += 1
        self._recent.append(bool(success))
        if len(self._recent) < self._rules.least:
            return None
        share = sum(self._recent) / len(self._recent)
        if share >= self._rules.promote and self._place < len(self._tiers) - 1:
            return self._move(1, "promoted")
        if share <= self._rules.demote and self._place > 0:
            return self._move(-1, "demoted")
        return None

    def _move(self, by: int, word: str) -> str:
        self._place += by
        self._recent.clear()
        return word

    def to_json(self) -> dict[str, Any]:
        """Return the whole state as plain JSON; see :meth:`from_json`."""
        return _State(
            version=FORMAT,
            tiers=self._tiers,
            tier=self.tier,
            recent=list(self._recent),
            episodes=self._episodes,
        ).model_dump()

    @classmethod
    def from_json(cls, state: Mapping[str, Any], rules: CurriculumRules | None = None) -> Curriculum:
        """Restore the curriculum that :meth:`to_json` wrote.

        Raises:
            ConfigurationError: The state is damaged or of another version; the message names the field.
        """
        try:
            kept = _State.model_validate(state)
            if kept.version != FORMAT:
                raise ConfigurationError(
                    f"version: {kept.version} is not supported; this program reads {FORMAT}"
                )
            curriculum = cls(kept.tiers, rules)
            curriculum._place = curriculum._tiers.index(kept.tier)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "state"
            raise ConfigurationError(f"{where}: {first['msg']}") from error
        except ValueError as error:
            raise ConfigurationError(f"tiers: {error}") from error
        curriculum._recent.extend(kept.recent)
        curriculum._episodes = kept.episodes
        return curriculum
