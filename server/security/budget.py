"""The budget that costly requests draw on: rates, concurrency, time and size.

Limits hold for each address and for all together. A refusal names its limit, says when to come back, and
uses nothing up. Requests with the operator's token are not counted.
"""

from __future__ import annotations

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
from .rate_limits import (
    MAX_TRACKED,
    ConcurrencyLimit,
    NoFreePlace,
    RateLimit,
    ReadPacer,
    RefillingAllowance,
    RequestScheduler,
)
from .requests import address_of
from .shared_limits import SharedRates
from .slot_queue import OPERATOR

HOUR_S: Final = 3600.0

PIECE_S: Final = 60.0
"""What is recorded within this time is counted as one."""


class RecordedSizeLimit:
    """Characters recorded in the last hour, by address, paid after the fact.

    Who has recorded too much waits until enough of it is an hour old. What an episode records before it is
    known who started it, such as the past of a fork, is counted with the first record after that.

    Args:
        limit: Characters that one address may record in an hour; 0 means no limit.
        starters: The addresses that started episodes, by their ids.
        clock: Measures.

    >>> from spectator.clock import SystemClock
    >>> size = RecordedSizeLimit(1000, {"ep-1": "here"}, SystemClock())
    >>> size.note("ep-1", 1001, ended=False)
    >>> 3500 < size.wait_s("here") <= 3660, size.wait_s("there")
    (True, 0.0)
    """

    def __init__(self, limit: float, starters: Mapping[str, str], clock: Clock) -> None:
        self.limit = limit
        self._starters = starters
        self._recorded = RateLimit(limit, HOUR_S, clock, piece_s=PIECE_S)
        self._unclaimed: dict[str, int] = {}

    def note(self, episode_id: str, size: int, *, ended: bool) -> None:
        """Count what was recorded of an episode.

        Args:
            episode_id: Which.
            size: Characters.
            ended: Whether nothing more comes.
        """
        size += self._unclaimed.pop(episode_id, 0)
        address = self._starters.get(episode_id)
        if address is None:
            if not ended:
                self._unclaimed[episode_id] = size
                if len(self._unclaimed) > MAX_TRACKED:
                    del self._unclaimed[next(iter(self._unclaimed))]
        elif address != OPERATOR:
            self._recorded.charge(address, size)

    def wait_s(self, address: str) -> float:
        """Seconds until ``address`` may record more; 0.0 when it may now."""
        return self._recorded.wait_s(address)

    def used(self) -> dict[str, int]:
        """Characters that each address recorded in the last hour, those with none left out."""
        return self._recorded.used()


AGAIN_S: Final = 5
"""When whoever found no place may ask again at the earliest, seconds."""

SPREAD_S: Final = 20
"""Over how many seconds those who are told to come again are spread, so that they do not all come at once."""

PAUSED_S: Final = "300"
"""The same of whoever wanted to start while starts are paused."""

REFUSED_MESSAGE: Final = 20.0
"""How many messages to a private environment one counts as that is refused: the next ones wait longer."""

CLIPS_AT_ONCE: Final = 8
"""Clips of recorded lines that may be made at once."""

WEIGHED_AT_ONCE: Final = 8
WEIGHED_FOR_ONE: Final = 2
"""Viewers for whom decisions are weighed at once, in all and of one address; others wait for their turn."""


class Costly(StrEnum):
    """What may be done only so often; the beginning of its settings' names."""

    STARTS = "starts"
    PUBLISHES = "publishes"
    RESETS = "resets"
    NOTES = "notes"


class Held(StrEnum):
    """What may go on only so many times at once."""

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
    """How often something may be done.

    Args:
        by_address: By one address, in a minute.
        by_all: By all together, in an hour.
    """

    by_address: RateLimit
    by_all: RateLimit


class Budget:
    """What costly things may take.

    Args:
        settings: The limits.
        clock: Measures.
        guard: Knows the operator.
        ledger: What asking models may cost in a day.
        orders: The operator's; starts are open when left out.
        playing: Whether anything is played now, so that reading has to rest.
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
        """What paid voices may be sent."""
        self.refused: Counter[str] = Counter()
        """Refusals, by the name of the limit, which is that of its setting."""
        self.environments: Counter[str] = Counter()
        """Private environments that are open, by address."""
        self.starters: dict[str, str] = {}
        """Who started the newest episodes, by their ids, the newest last."""
        self.rates: Mapping[Costly, Rate] = {
            what: Rate(
                RateLimit(getattr(settings, f"{what}_per_minute"), 60.0, clock),
                RateLimit(getattr(settings, f"{what}_per_hour"), 3600.0, clock),
            )
            for what in Costly
        }
        self.places: Mapping[Held, ConcurrencyLimit] = {
            Held.READS: ConcurrencyLimit(settings.max_reads, settings.max_reads_per_address),
            Held.CLIPS: ConcurrencyLimit(CLIPS_AT_ONCE),
            Held.ALTERNATIVES: ConcurrencyLimit(WEIGHED_AT_ONCE, WEIGHED_FOR_ONE),
        }
        self.reading = ReadPacer(clock, playing)
        """In which the pieces of records are read."""
        self.recorded = RecordedSizeLimit(settings.recorded_mb_per_hour * 1e6, self.starters, clock)
        """What addresses recorded lately."""
        self.compute = RefillingAllowance(settings.openenv_compute_s_per_minute, clock)
        self.weighing = RefillingAllowance(settings.alternatives_s_per_minute, clock)
        """Seconds in which decisions are weighed for addresses."""
        self.requests = RefillingAllowance(settings.requests_per_minute, clock)
        """Requests, and messages to private environments, that addresses may send."""
        self.turns = RequestScheduler(lambda: settings.requests_per_minute > 0 and playing())
        """In which both are begun."""
        self.clock = clock
        """Measures."""
        self.shared: SharedRates | None = None
        """How often all servers together may do something; ``None`` where one is alone."""
        self._guard = guard
        self._orders = orders

    @contextmanager
    def spend(self, what: Costly, connection: HTTPConnection) -> Iterator[None]:
        """Count one of ``what`` at this server for the time of the ``with``; given back if that fails.

        Raises:
            Refused: There were too many lately, or starts are paused.
        """
        if self._guard.is_operator(connection):
            yield
        else:
            with self.spend_of(what, address_of(connection)):
                yield

    @contextmanager
    def spend_of(self, what: Costly, address: str) -> Iterator[None]:
        """The same for an address that is not the operator's."""
        paused = self._orders is not None and self._orders.kept.paused_since is not None
        if paused and what is not Costly.RESETS:
            raise self.refuse(
                "starts_paused",
                Refused(
                    PAUSED,
                    "The operator has paused starts; what runs goes on, and recordings can be watched.",
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
        """Count one of ``what`` among those of all servers, for the time of the ``with``; likewise.

        Args:
            what: What is done.
            whose: An address; the operator is not counted.

        Raises:
            Refused: There were too many lately.
            JournalError: They cannot be counted now.
        """
        if self.shared is None or whose == OPERATOR:
            yield
            return
        async with self.shared.one_of(what, WORDS[what], whose):
            yield

    @asynccontextmanager
    async def hold(self, what: Held, connection: HTTPConnection) -> AsyncIterator[None]:
        """Hold a place for ``what`` for the time of the ``with``, once it is this address's turn.

        Raises:
            Refused: None became free in time.
        """
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
        own = error.whose == "address"
        limit = f"max_{what}_per_address" if own else f"max_{what}"
        detail = (
            f"This address has its {places.by_address} {what} at once ({_setting(limit)})"
            if own
            else f"All {places.total} {what} at once are taken ({_setting(limit)})"
        )
        kind, again = TOO_MANY if own else CROWDED, str(AGAIN_S + self.refused[limit] % SPREAD_S)
        return self.refuse(
            limit, Refused(kind, f"{detail}; try again in {again} s.", headers={"Retry-After": again})
        )

    def require_weighing(self, connection: HTTPConnection) -> None:
        """Let a decision be weighed.

        Raises:
            Refused: Too much was weighed for this address lately.
        """
        if not self._guard.is_operator(connection):
            if (wait_s := self.weighing.wait_s(address_of(connection))) > 0:
                raise self.too_often(
                    "alternatives_s_per_minute", wait_s, "seconds of weighing for this address"
                )

    def charge_weighing(self, connection: HTTPConnection, seconds: float) -> None:
        """Count seconds in which a decision was weighed."""
        if not self._guard.is_operator(connection):
            self.weighing.charge(address_of(connection), seconds)

    def refuse_request(self, address: str) -> Refused | None:
        """The refusal of a request of an address that sent too many lately; else it is counted."""
        if (wait_s := self.requests.wait_s(address)) > 0:
            return self.too_often("requests_per_minute", wait_s, "requests from this address")
        self.requests.charge(address, 1.0)
        return None

    def account(self, connection: HTTPConnection) -> ClientAccount:
        """What the private environments of the client behind ``connection`` draw on."""
        try:
            operator = self._guard.is_operator(connection)
        except Refused:  # it may play like everybody
            operator = False
        return ClientAccount(self, None if operator else address_of(connection))

    def note_start(self, episode_id: str, address: str) -> None:
        """Remember who started an episode."""
        self.starters[episode_id] = address
        if len(self.starters) > MAX_TRACKED:
            del self.starters[next(iter(self.starters))]

    def starter(self, episode_id: str) -> str | None:
        """The address that started an episode; ``None`` where that is not known any more."""
        return self.starters.get(episode_id)

    async def require_model_budget(self) -> None:
        """Let an episode with a model begin.

        Raises:
            Refused: What models may use up today is spent.
            JournalError: Several servers share it, and what is left cannot be asked for now.
        """
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
        """``refused``, counted under the name of its limit."""
        self.refused[limit] += 1
        return refused

    def too_often(self, limit: str, wait_s: float, what: str) -> Refused:
        """The refusal of whoever did ``what`` too often; counted under the name of its limit."""
        return self.refuse(limit, too_many(wait_s, what, _setting(limit)))


@dataclass(frozen=True, slots=True)
class ClientAccount:
    """What one client's private environments draw on.

    Args:
        budget: Everybody's.
        address: The client's; ``None`` for the operator, who is not counted.
    """

    budget: Budget
    address: str | None

    @property
    def name(self) -> str:
        """Whose it is, for people."""
        return "operator" if self.address is None else self.address

    def note_start(self, episode_id: str) -> None:
        """Remember whose episode it is."""
        self.budget.note_start(episode_id, self.name)

    @asynccontextmanager
    async def spend(self, what: Costly) -> AsyncIterator[None]:
        """Count one of ``what`` here and at all servers together; see :meth:`Budget.spend_shared`."""
        if self.address is None:
            yield
            return
        with self.budget.spend_of(what, self.address):
            async with self.budget.spend_shared(what, self.address):
                yield

    def require_compute(self) -> None:
        """Let one of its environments compute.

        Raises:
            Refused: They have computed for too long lately.
        """
        if self.address is not None and (wait_s := self.budget.compute.wait_s(self.address)) > 0:
            what = "seconds of computing by the environments of this address"
            raise self.budget.too_often("openenv_compute_s_per_minute", wait_s, what)

    async def admit_message(self) -> None:
        """Return once a message to one of its environments may be carried out."""
        if self.address is None:
            return
        budget = self.budget
        while (wait_s := budget.requests.wait_s(self.address)) > 0:
            await budget.clock.sleep(wait_s)
        budget.requests.charge(self.address, 1.0)
        await budget.turns.take(self.address)

    def note_refused(self) -> None:
        """Let the next messages wait longer, for one was refused."""
        if self.address is not None:
            self.budget.requests.charge(self.address, REFUSED_MESSAGE)

    def charge(self, seconds: float) -> None:
        """Count ``seconds`` of computing."""
        if self.address is not None:
            self.budget.compute.charge(self.address, seconds)


def _setting(limit: str) -> str:
    name = f"{PREFIX}{limit.upper()}"
    return name if limit in Settings.model_fields else limit
