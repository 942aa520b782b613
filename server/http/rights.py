"""What whoever asks may do, found out where they ask and told to the server that plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from starlette.requests import HTTPConnection

from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import FieldError, InvalidRequest, SpectatorError
from spectator.policies.lent_models import spends_here

from ..security import faults
from ..security.client_address import address_of
from ..security.faults import Kind, Refused
from ..security.slot_queue import OPERATOR
from ..services import Services


def problem_told(error: Refused | SpectatorError) -> dict[str, Any]:
    """A refusal as JSON, for another server to answer with."""
    kind = error.kind if isinstance(error, Refused) else faults.kind_of(error)
    detail = error.detail if isinstance(error, Refused) else str(error)
    if kind is faults.INTERNAL:
        detail = "Something broke; it has been logged."
    fields = error.fields if isinstance(error, InvalidRequest) else ()
    return {
        "kind": [kind.name, kind.status, kind.title],
        "detail": detail,
        "headers": error.headers if isinstance(error, Refused) else {},
        "errors": [[wrong.field, wrong.rule] for wrong in fields],
    }


def problem_heard(told: Mapping[str, Any]) -> Refused | InvalidRequest:
    """The refusal that another server told.

    >>> problem_heard(problem_told(Refused(faults.NOT_HERE, "not this"))).detail
    'not this'
    """
    if told["errors"]:
        return InvalidRequest([FieldError(field, rule) for field, rule in told["errors"]])
    return Refused(Kind(*told["kind"]), told["detail"], headers=told["headers"])


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may do.

    Args:
        whose: The address that asks, or the operator.
        spend: Refuses whoever may not start what costs money.
    """

    whose: str
    spend: Callable[[], object]

    @classmethod
    def of(cls, connection: HTTPConnection, services: Services) -> Self:
        """Those of whoever sent a request.

        Raises:
            Refused: It carries a wrong token.
        """
        guard = services.guard
        whose = OPERATOR if guard.is_operator(connection) else address_of(connection)
        return cls(whose, partial(guard.require_spender, connection))

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Self:
        """Those that another server told."""
        return cls(told["whose"], partial(_answer, told["spending"]))

    def told(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"whose": self.whose, "spending": _refusal(self.spend)}

    async def need(self, plan: EpisodePlan, services: Services) -> None:
        """Let whoever may have this world, with these options and captains, through.

        Raises:
            Refused: They may not, or what models may use up today is spent.
            JournalError: See :meth:`.budget.Budget.need_money`.
        """
        if self.whose != OPERATOR:
            services.offer.check(plan.world.name, plan.options)
        if spends_here(plan.captain) or spends_here(plan.opponent):
            self.spend()
            await services.budget.need_money()


def _refusal(need: Callable[[], object]) -> dict[str, Any] | None:
    """How somebody is refused, for another server; ``None`` where they are not."""
    try:
        need()
    except Refused as refused:
        return problem_told(refused)
    return None


def _answer(told: Mapping[str, Any] | None) -> None:
    """Refuse as another server told."""
    if told is not None:
        raise problem_heard(told)
