"""Settings of the spending caps, shared by the server and the command line."""

from __future__ import annotations

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
        default=10.0, ge=0, description="The same in money, by the prices of the captains' catalogue"
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
        default=50.0, ge=0, description="The same in money, by the prices of the captains' catalogue"
    )
    model_day_s: float = Field(default=0.0, ge=0, description="The same in seconds of waiting for answers")

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
