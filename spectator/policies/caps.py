"""Settings of the spending caps, shared by the server and the command line."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from spectator.clock import Clock
from spectator.policies.spending import Caps, SpendLedger


class CapSettings(BaseModel):
    """The caps of an episode and of a day, each with its default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model_episode_tokens: int = Field(
        default=10_000_000,
        ge=0,
        description="Tokens that the models of one episode may use, in equal shares; beyond it scripted "
        "captains decide for them; 0 = no limit",
    )
    model_episode_cost: float = Field(
        default=10.0, ge=0, description="The same in US dollars, by the prices of the captains' catalogue"
    )
    model_episode_s: float = Field(
        default=0.0, ge=0, description="The same in seconds of waiting for their answers"
    )
    model_day_tokens: int = Field(
        default=100_000_000,
        ge=0,
        description="Tokens that all models may use in a day (UTC); beyond it no episode with a model starts "
        "until the next; 0 = no limit",
    )
    model_day_cost: float = Field(
        default=50.0, ge=0, description="The same in US dollars, by the prices of the captains' catalogue"
    )
    model_day_s: float = Field(default=0.0, ge=0, description="The same in seconds of waiting for answers")

    def cannot_bind(self, unpriced: Sequence[str]) -> tuple[str, bool] | None:
        """What is wrong with the caps of money where models have no known price.

        Args:
            unpriced: Models that somebody is paid for, by no known price, as presets are called.

        Returns:
            The sentence, which names captains and settings, and whether such a cap was set by somebody
            rather than being the default; ``None`` where every cap limits what it should.

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
        sentence = (
            f"{settings}: no cap of money can limit {', '.join(unpriced)}: no price is known. Set price_in "
            "and price_out in its table, take its key away, or set the cap to 0 and limit tokens"
        )
        return sentence, bool(given)

    def ledger(self, clock: Clock, *, whole: Caps | None = None) -> SpendLedger:
        """What asking models may take, nothing spent yet.

        Args:
            clock: Tells the day.
            whole: See :class:`SpendLedger`.
        """
        return SpendLedger(
            Caps(self.model_day_tokens, self.model_day_cost, self.model_day_s),
            Caps(self.model_episode_tokens, self.model_episode_cost, self.model_episode_s),
            clock,
            whole=whole,
        )
