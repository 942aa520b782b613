"""Settings of the caps for an episode and for a day."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from spectator.clock import Clock
from spectator.policies.spending import Caps, SpendLedger


class CapSettings(BaseModel):
    """Caps of an episode and of a day, with defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model_episode_tokens: int = Field(
        default=10_000_000,
        ge=0,
        description="Tokens that the models of one episode may use, in equal shares; after that, scripted "
        "captains decide for them; 0 = no limit",
    )
    model_episode_cost: float = Field(
        default=10.0, ge=0, description="The same in US dollars, at the captains' prices"
    )
    model_episode_s: float = Field(
        default=0.0, ge=0, description="The same in seconds of waiting for their answers"
    )
    model_day_tokens: int = Field(
        default=100_000_000,
        ge=0,
        description="Tokens that all models may use per day (UTC); after that, no episode with a model "
        "starts until the next day; 0 = no limit",
    )
    model_day_cost: float = Field(
        default=50.0, ge=0, description="The same in US dollars, at the captains' prices"
    )
    model_day_s: float = Field(default=0.0, ge=0, description="The same in seconds of waiting for answers")

    def cannot_bind(self, unpriced: Sequence[str]) -> tuple[str, bool] | None:
        """Check that caps of money can be enforced for models without a known price.

        Args:
            unpriced: Preset names of models that cost money but have no known price.

        Returns:
            An error message that names captains and settings, and whether such a cap was set explicitly;
            ``None`` if every cap can be enforced.

        >>> CapSettings(model_day_cost=5).cannot_bind(["llm:mine"])[1]
        True
        >>> CapSettings(model_day_cost=5).cannot_bind([]) is None
        True
        """
        caps = ("model_episode_cost", "model_day_cost")
        given = [name for name in caps if getattr(self, name) and name in self.model_fields_set]
        names = given or [name for name in caps if getattr(self, name)]
        if not unpriced or not names:
            return None
        settings = ", ".join(f"SPECTATOR_{name.upper()}" for name in names)
        message = (
            f"{settings}: cannot limit the cost of {', '.join(unpriced)}: the price is unknown. Set price_in "
            "and price_out in the captain's table, remove its key, or set the cap to 0 and limit tokens"
        )
        return message, bool(given)

    def ledger(self, clock: Clock, *, whole: Caps | None = None) -> SpendLedger:
        """Return a new ledger with these caps.

        Args:
            clock: Determines the day.
            whole: See :class:`SpendLedger`.
        """
        return SpendLedger(
            Caps(self.model_day_tokens, self.model_day_cost, self.model_day_s),
            Caps(self.model_episode_tokens, self.model_episode_cost, self.model_episode_s),
            clock,
            whole=whole,
        )
