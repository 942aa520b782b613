"""What a model's requests use: set aside before a request, and counted after it."""

from __future__ import annotations

from dataclasses import replace

from spectator.errors import FailureClass, PolicyError
from spectator.llm.chat import ChatAnswer, Usage
from spectator.llm.tool_calls import written_form
from spectator.policies.dialogue import LinePrompts
from spectator.policies.model_settings import ModelSettings
from spectator.policies.spending import SpendLimit, Spent
from spectator.policies.turns import DecisionInProgress


class BudgetSpent(PolicyError):
    """The caps do not cover a further request."""

    failure_class: FailureClass = "spent"


class RequestSpending:
    """Sets aside the most that a request may use, and counts what it used, for decision and budget.

    Args:
        prompts: The conversation; estimates what the endpoint does not count.
    """

    def __init__(self, settings: ModelSettings, prompts: LinePrompts) -> None:
        self.prompts = prompts
        self.budget: SpendLimit | None = None
        """Limits the spending; ``None`` for no limit."""
        self._settings = settings

    async def hold(self, patience_s: float) -> Spent:
        """Set aside and return the most that the next request may use: its prompt, and the longest answer.

        Args:
            patience_s: Longest wait for other requests to end, seconds.

        Raises:
            BudgetSpent: The caps do not cover it.
        """
        prompt = self.prompts.estimate.of(self.prompts.characters)
        used = Usage(prompt, self._settings.max_tokens or 0)
        most = Spent(used.tokens_in + used.tokens_out, self._cost(used) or 0.0)
        if self.budget is not None and (reached := await self.budget.hold(most, patience_s)) is not None:
            raise BudgetSpent(reached)
        return most

    def overdrawn(self, most: Spent) -> bool:
        """Return whether the caps no longer cover ``most``, which is set aside."""
        return self.budget is not None and self.budget.overdrawn(most)

    def release(self, most: Spent, seconds: float) -> None:
        """Return what :meth:`hold` set aside, and count the seconds that the request took."""
        if self.budget is not None:
            self.budget.release(most)
            self.budget.pay(Spent(seconds=seconds))

    def count(self, asking: DecisionInProgress, answer: ChatAnswer) -> None:
        """Count an answer; what the endpoint did not count is estimated."""
        counted, written = answer.usage or Usage(), len(written_form(answer)) + len(answer.thought)
        if counted.tokens_in and (counted.tokens_out or not written):
            return self._count(asking, counted, guessed=False)
        guess = self._guess(written)
        tokens_in, tokens_out = counted.tokens_in or guess.tokens_in, counted.tokens_out or guess.tokens_out
        self._count(asking, replace(counted, tokens_in=tokens_in, tokens_out=tokens_out), guessed=True)

    def lose(self, asking: DecisionInProgress, counted: str = "") -> None:
        """Count a request without an answer: as counted, as far as written, or as the longest answer."""
        used = Usage(*map(int, counted.split())) if counted else self._guess(asking.written)
        if not counted and not asking.written:
            used = replace(used, tokens_out=self._settings.max_tokens or used.tokens_out)
        self._count(asking, used, guessed=not counted)
        asking.written = 0

    def _guess(self, written: int) -> Usage:
        """Estimate the tokens of the last prompt and of ``written`` characters."""
        estimate = self.prompts.estimate
        return Usage(estimate.of(self.prompts.characters), estimate.of(written))

    def _cost(self, used: Usage) -> float | None:
        price = self._settings.priced
        return None if price is None else price.cost(used)

    def _count(self, asking: DecisionInProgress, used: Usage, *, guessed: bool) -> None:
        asking.used = used if asking.used is None else asking.used + used
        asking.estimated |= guessed
        if (cost := self._cost(used)) is not None:
            asking.cost = round((asking.cost or 0.0) + cost, 9)
        if self.budget is not None:
            self.budget.pay(Spent(used.tokens_in + used.tokens_out, cost or 0.0))
