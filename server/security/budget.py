"""Limits of costly requests: rates, concurrency, computing time and recorded size.

Limits hold per address and for all together. A rejection names its limit, says when to retry, and
consumes nothing. Requests with the operator's token are not counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.requests import HTTPConnection

from spectator.clock import Clock
from spectator.narration.voices import CharacterBudget
from spectator.policies.spending import SpendLedger

from ..setting_types import PREFIX
from ..settings import Settings
from .faults import CROWDED, PAUSED, SPENT, TOO_MANY, Refused, too_many
from .masking import OperatorOrders
from .permissions import Guard
from .rate_limits import MAX_TRACKED, ConcurrencyLimit, NoFreePlace, RateLimit, RequestScheduler, TokenBucket
from .requests import address_of
from .shared_limits import SharedRates
from .slot_queue import OPERATOR

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0

REST: Final = 3.0
"""Pause after reading a piece of a record while an episode runs, as a multiple of the reading time."""

LONGEST_REST_S: Final = 0.25

AGAIN_S: Final = 5
"""Earliest retry in seconds for a client that found no free place."""

SPREAD_S: Final = 20
"""Seconds over which retries are spread, so that clients do not all return at once."""

PAUSED_S: Final = "300"
"""Retry-After in seconds while starts are paused."""

REFUSED_MESSAGE: Final = 20.0
"""Messages that one rejected message to a private environment counts as, so that the next ones wait."""

CLIPS_AT_ONCE: Final = 8
"""Clips of recorded lines made at once."""

ANALYSES_AT_ONCE: Final = 8
ANALYSES_PER_ADDRESS: Final = 2
"""Requests for alternatives to decisions answered at once, in all and per address; others wait."""


class Costly(StrEnum):
    """Rate-limited actions; each value is the prefix of its settings' names."""

    STARTS = "starts"
    PUBLISHES = "publishes"
    RESETS = "resets"
    NOTES = "notes"


class Held(StrEnum):
    """Actions with a limit on how many run at once."""

    READS = "reads"
    CLIPS = "clips"
    ALTERNATIVES = "alternatives"


WORDS: Final = {
    Costly.STARTS: "starts",
    Costly.PUBLISHES: "published episodes",
    Costly.RESETS: "resets",
    Costly.NOTES: "notes",
}


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate limits of one action.

    Args:
        by_address: Per address and minute.
        by_all: For all together, per hour.
    """

    by_address: RateLimit
    by_all: RateLimit


class Budget:
    """Enforces the limits of costly requests.

    Args:
        orders: The operator's orders; starts are open if omitted.
        playing: Whether any episode is running, so that reading pauses.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        guard: Guard,
        ledger: SpendLedger,
        orders: OperatorOrders | None = None,
        playing: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ledger = ledger
        self.characters = CharacterBudget(
            settings.voice_day_characters, settings.voice_episode_characters, clock
        )
        """Characters that paid voices may be sent."""
        self.refused: Counter[str] = Counter()
        """Rejections by limit, named as its setting."""
        self.environments: Counter[str] = Counter()
        """Open private environments by address."""
        self.starters: dict[str, str] = {}
        """Addresses that started the newest episodes, by episode id, newest last."""
        self.rates: Mapping[Costly, Rate] = {
            what: Rate(
                RateLimit(getattr(settings, f"{what}_per_minute"), MINUTE_S, clock),
                RateLimit(getattr(settings, f"{what}_per_hour"), HOUR_S, clock),
            )
            for what in Costly
        }
        self.places: Mapping[Held, ConcurrencyLimit] = {
            Held.READS: ConcurrencyLimit(settings.max_reads, settings.max_reads_per_address),
            Held.CLIPS: ConcurrencyLimit(CLIPS_AT_ONCE),
            Held.ALTERNATIVES: ConcurrencyLimit(ANALYSES_AT_ONCE, ANALYSES_PER_ADDRESS),
        }
        self.recorded = RateLimit(settings.recorded_mb_per_hour * 1e6, HOUR_S, clock, piece_s=MINUTE_S)
        """Characters that episodes of each address recorded in the last hour."""
        self.compute = _per_minute(settings.openenv_compute_s_per_minute, clock)
        """Seconds that private environments of each address compute."""
        self.votes = RateLimit(settings.votes_per_minute, MINUTE_S, clock)
        """Votes of viewers at each address."""
        self.analyses = _per_minute(settings.alternatives_s_per_minute, clock)
        """Seconds spent on evaluating alternatives for each address."""
        self.requests = _per_minute(settings.requests_per_minute, clock)
        """Requests, and messages to private environments, of each address."""
        self.turns = RequestScheduler(lambda: settings.requests_per_minute > 0 and playing())
        """The order in which requests and messages start."""
        self.clock = clock
        self.shared: SharedRates | None = None
        """Rates of all servers together; ``None`` if this server is alone."""
        self._playing = playing
        self._reading = asyncio.Lock()
        self._unclaimed: dict[str, int] = {}
        self._guard = guard
        self._orders = orders

    @contextmanager
    def spend(self, what: Costly, connection: HTTPConnection) -> Iterator[None]:
        """Count one ``what`` at this server; undone if the ``with`` block fails.

        Raises:
            Refused: There were too many recently, or starts are paused.
        """
        if self._guard.is_operator(connection):
            yield
        else:
            with self.spend_of(what, address_of(connection)):
                yield

    @contextmanager
    def spend_of(self, what: Costly, address: str) -> Iterator[None]:
        """Do the same as :meth:`spend` for an address that is not the operator's."""
        paused = self._orders is not None and self._orders.kept.paused_since is not None
        if paused and what is not Costly.RESETS:
            raise self.refuse(
                "starts_paused",
                Refused(
                    PAUSED,
                    "The operator has paused starts. Running episodes continue; recordings can be watched.",
                    headers={"Retry-After": PAUSED_S},
                ),
            )
        if self.recorded.limit and (wait_s := self.recorded.wait_s(address)) > 0:
            size = "characters recorded by episodes of this address"
            raise self.too_often("recorded_mb_per_hour", wait_s, size)
        rate = self.rates[what]
        if (wait_s := rate.by_address.take(address)) > 0:
            raise self.too_often(f"{what}_per_minute", wait_s, f"{WORDS[what]} from this address")
        if (wait_s := rate.by_all.take("")) > 0:
            rate.by_address.give_back(address)
            raise self.too_often(f"{what}_per_hour", wait_s, WORDS[what])
        try:
            yield
        except BaseException:
            rate.by_address.give_back(address)
            rate.by_all.give_back("")
            raise

    @asynccontextmanager
    async def spend_shared(self, what: Costly, whose: str) -> AsyncIterator[None]:
        """Count one ``what`` at all servers together; undone if the ``with`` block fails.

        Args:
            whose: An address; the operator is not counted.
        """
        if self.shared is None or whose == OPERATOR:
            yield
            return
        async with self.shared.one_of(what, WORDS[what], whose):
            yield

    @asynccontextmanager
    async def hold(self, what: Held, connection: HTTPConnection) -> AsyncIterator[None]:
        """Hold a place for ``what`` during the ``with``, after waiting for a turn."""
        if self._guard.is_operator(connection):
            yield
            return
        places, address = self.places[what], address_of(connection)
        taken = places.hold(address)
        try:
            await taken.__aenter__()
        except NoFreePlace as error:
            raise self._crowded(what, places, error) from None
        try:
            yield
        finally:
            await taken.__aexit__(None, None, None)

    def _crowded(self, what: Held, places: ConcurrencyLimit, error: NoFreePlace) -> Refused:
        own = error.scope == "address"
        limit = f"max_{what}_per_address" if own else f"max_{what}"
        detail = (
            f"This address already has {places.by_address} {what} at once ({_setting(limit)})"
            if own
            else f"All {places.total} concurrent {what} are in use ({_setting(limit)})"
        )
        kind, again = TOO_MANY if own else CROWDED, str(AGAIN_S + self.refused[limit] % SPREAD_S)
        return self.refuse(
            limit, Refused(kind, f"{detail}; try again in {again} s.", headers={"Retry-After": again})
        )

    @asynccontextmanager
    async def reading_turn(self) -> AsyncIterator[None]:
        """Read one piece of a record within the ``with``.

        While an episode runs, a pause follows each piece, so that play gets the processor first.
        """
        async with self._reading:
            began = self.clock.monotonic()
            yield
            if self._playing():
                took = self.clock.monotonic() - began
                await self.clock.sleep(min(LONGEST_REST_S, REST * took))

    def require_analysis(self, connection: HTTPConnection) -> None:
        """Check that alternatives may be evaluated for a client.

        Raises:
            Refused: The address used up its time recently.
        """
        if not self._guard.is_operator(connection):
            if (wait_s := self.analyses.wait_s(address_of(connection))) > 0:
                raise self.too_often(
                    "alternatives_s_per_minute", wait_s, "seconds of evaluating alternatives for this address"
                )

    def charge_analysis(self, connection: HTTPConnection, seconds: float) -> None:
        """Count seconds spent on evaluating alternatives."""
        if not self._guard.is_operator(connection):
            self.analyses.spend(seconds, address_of(connection))

    def count_vote(self, address: str) -> None:
        """Count a vote of a viewer.

        Raises:
            Refused: There were too many from its address recently.
        """
        if (wait_s := self.votes.take(address)) > 0:
            raise self.too_often("votes_per_minute", wait_s, "votes from this address")

    def refuse_request(self, address: str) -> Refused | None:
        """Count a request of ``address``, or return its rejection."""
        if (wait_s := self.requests.wait_s(address)) > 0:
            return self.too_often("requests_per_minute", wait_s, "requests from this address")
        self.requests.spend(1.0, address)
        return None

    def account(self, connection: HTTPConnection) -> ClientAccount:
        """Return the account that private environments of this client are charged to."""
        try:
            operator = self._guard.is_operator(connection)
        except Refused:  # a wrong token plays like any visitor
            operator = False
        return ClientAccount(self, None if operator else address_of(connection))

    def note_start(self, episode_id: str, address: str) -> None:
        """Remember who started an episode."""
        self.starters[episode_id] = address
        if len(self.starters) > MAX_TRACKED:
            del self.starters[next(iter(self.starters))]

    def starter(self, episode_id: str) -> str | None:
        """Return the address that started an episode; ``None`` if no longer known."""
        return self.starters.get(episode_id)

    def note_recorded(self, episode_id: str, size: int, ended: bool) -> None:
        """Count what was recorded of an episode, for the address that started it.

        What is recorded before the starter is known, such as the past of a fork, is counted with the first
        record after that.
        """
        size += self._unclaimed.pop(episode_id, 0)
        address = self.starter(episode_id)
        if address is None:
            if not ended:
                self._unclaimed[episode_id] = size
                if len(self._unclaimed) > MAX_TRACKED:
                    del self._unclaimed[next(iter(self._unclaimed))]
        elif address != OPERATOR:
            self.recorded.charge(address, size)

    async def require_model_budget(self) -> None:
        """Check that an episode with a model may start."""
        refusal = await self.ledger.reserve()
        if refusal is not None:
            wait_s = round(self.ledger.until_tomorrow_s()) + 1
            raise self.refuse(
                "model_day",
                Refused(
                    SPENT,
                    f"No episode with a model can be started today: {refusal}. Days are UTC; raise "
                    "SPECTATOR_MODEL_DAY_* to allow more, or choose a scripted captain.",
                    headers={"Retry-After": str(wait_s)},
                ),
            )

    def refuse(self, limit: str, refused: Refused) -> Refused:
        """Count a rejection under its limit, and return it."""
        self.refused[limit] += 1
        return refused

    def too_often(self, limit: str, wait_s: float, what: str) -> Refused:
        """Return the rejection for too many ``what``, counted under its limit."""
        return self.refuse(limit, too_many(wait_s, what, _setting(limit)))


@dataclass(frozen=True, slots=True)
class ClientAccount:
    """The account of one client's private environments.

    Args:
        address: The client's; ``None`` for the operator, who is not counted.
    """

    budget: Budget
    address: str | None

    @property
    def name(self) -> str:
        """The owner's name, for people."""
        return "operator" if self.address is None else self.address

    def note_start(self, episode_id: str) -> None:
        """Remember who started an episode."""
        self.budget.note_start(episode_id, self.name)

    @asynccontextmanager
    async def spend(self, what: Costly) -> AsyncIterator[None]:
        """Count one ``what`` here and at all servers together.

        See :meth:`Budget.spend_shared`.
        """
        if self.address is None:
            yield
            return
        with self.budget.spend_of(what, self.address):
            async with self.budget.spend_shared(what, self.address):
                yield

    def require_compute(self) -> None:
        """Check that an environment of this client may compute."""
        if self.address is not None and (wait_s := self.budget.compute.wait_s(self.address)) > 0:
            what = "seconds of computing by the environments of this address"
            raise self.budget.too_often("openenv_compute_s_per_minute", wait_s, what)

    async def admit_message(self) -> None:
        """Wait until a message to one of its environments may be handled."""
        if self.address is None:
            return
        budget = self.budget
        while (wait_s := budget.requests.wait_s(self.address)) > 0:
            await budget.clock.sleep(wait_s)
        budget.requests.spend(1.0, self.address)
        await budget.turns.take(self.address)

    def note_refused(self) -> None:
        """Make the next messages wait longer after a rejected one."""
        if self.address is not None:
            self.budget.requests.spend(REFUSED_MESSAGE, self.address)

    def charge(self, seconds: float) -> None:
        """Count ``seconds`` of computing."""
        if self.address is not None:
            self.budget.compute.spend(seconds, self.address)


def _per_minute(limit: float, clock: Clock) -> TokenBucket:
    return TokenBucket(limit / MINUTE_S, limit, clock)


def _setting(limit: str) -> str:
    name = f"{PREFIX}{limit.upper()}"
    return name if limit in Settings.model_fields else limit
