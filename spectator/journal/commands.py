"""Pass commands to the process that plays an episode, and collect its answers.

A command waits in the database, so it survives both its sender and its receiver. The process that holds the
episode's lease takes the command; if that process dies, the next holder takes it again. Only the last process
that took the command can answer it, while it holds the lease.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Identity,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)

from spectator.journal.coordination import NOT_OF_A_FLEET, Transactor
from spectator.journal.postgres import CHANNEL, FREED

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert


command_tables: Final = MetaData()

commands: Final = Table(
    "commands",
    command_tables,
    Column("id", Text(collation="C"), primary_key=True),
    Column("number", BigInteger, Identity(), nullable=False),
    Column("episode_id", Text(collation="C"), nullable=False, index=True),
    Column("name", Text(collation="C"), nullable=False),
    Column("body", Text, nullable=False),
    Column("taken_by", Text(collation="C")),
    Column("answer", Text),
    Column("given_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)
"""One row per command, ordered by ``number``. Used if several processes write; not part of the record."""

starters: Final = Table(
    "starters",
    command_tables,
    Column("episode_id", Text(collation="C"), primary_key=True),
    Column("digest", Text, nullable=False),
)
"""Who started each unfinished episode: a digest of the address."""

secrets: Final = Table(
    "secrets",
    command_tables,
    Column("name", Text(collation="C"), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Secrets from which all processes derive the same keys."""

STOP: Final = "stop"
"""Name of the command that ends an episode; kept until the episode has ended."""

KEPT: Final = "60 s"
"""How long an obsolete command is kept, by the database's clock."""

_TAKE: Final = text(
    "UPDATE commands SET taken_by = :me FROM leases WHERE leases.episode_id = commands.episode_id "
    "AND leases.owner = :me AND commands.answer IS NULL "
    "RETURNING commands.id, commands.episode_id, commands.name, commands.body, commands.number"
)
_ANSWER: Final = text(
    "UPDATE commands SET answer = :answer WHERE id = :id AND answer IS NULL AND taken_by = :me AND ("
    "EXISTS (SELECT FROM leases WHERE leases.episode_id = commands.episode_id AND leases.owner = :me) OR "
    "EXISTS (SELECT FROM episodes WHERE episodes.episode_id = commands.episode_id AND ended_at IS NOT NULL))"
)
_OUTCOME: Final = text(
    "SELECT commands.answer, episodes.ended_at, episodes.reason, episodes.turns FROM commands "
    "LEFT JOIN episodes ON episodes.episode_id = commands.episode_id WHERE commands.id = :id"
)
_PLAYER: Final = text(
    "SELECT owner FROM episodes LEFT JOIN leases ON leases.episode_id = episodes.episode_id "
    f"WHERE episodes.episode_id = :episode AND ended_at IS NULL AND {NOT_OF_A_FLEET}"
)
_WITHDRAW: Final = text("DELETE FROM commands WHERE id = :id AND taken_by IS NULL AND answer IS NULL")
_FREED: Final = text(f"SELECT pg_notify('{CHANNEL}', '{FREED}')")
_FORGET: Final = text("DELETE FROM commands WHERE id = :id")
_STOPS: Final = text(
    "SELECT DISTINCT ON (number) id, commands.episode_id, name, body FROM commands "
    "JOIN episodes ON episodes.episode_id = commands.episode_id AND ended_at IS NULL "
    f"WHERE name = :stop AND answer IS NULL AND {NOT_OF_A_FLEET} "
    "AND NOT EXISTS (SELECT FROM leases WHERE leases.episode_id = commands.episode_id) "
    "ORDER BY number LIMIT :limit"
)
_TIDY: Final = (
    text(
        "DELETE FROM commands WHERE given_at < now() - CAST(:kept AS interval) AND (answer IS NOT NULL "
        "OR NOT EXISTS (SELECT FROM episodes "
        "WHERE episodes.episode_id = commands.episode_id AND ended_at IS NULL))"
    ),
    text(
        "DELETE FROM starters WHERE NOT EXISTS "
        "(SELECT FROM episodes WHERE episodes.episode_id = starters.episode_id AND ended_at IS NULL)"
    ),
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command for the process that plays an episode.

    Args:
        id: Id of the command; giving it again has no effect.
        body: Arguments, as JSON.
    """

    id: str
    episode_id: str
    name: str
    body: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The current state of a command and of its episode.

    Args:
        answer: The answer of the process that carried it out; ``None`` before.
        ended: Whether the episode has ended or was removed.
        reason: Why it ended; ``None`` before.
        turns: Turns taken, once it has ended.
    """

    answer: str | None
    ended: bool
    reason: str | None = None
    turns: int | None = None


class Commands:
    """The commands in one journal on a database server.

    Methods raise :class:`~spectator.errors.JournalError` while the database cannot be read or written.

    Args:
        name: Name of this process as an owner of leases.
    """

    def __init__(self, journal: Transactor, name: str) -> None:
        self._journal = journal
        self._name = name

    async def played_elsewhere(self, episode_id: str) -> bool:
        """Return whether an unfinished episode belongs to another process, or to none."""
        found = await self._journal.transact(
            lambda connection: connection.execute(_PLAYER, {"episode": episode_id}).first()
        )
        return found is not None and found.owner != self._name

    async def give(self, command: Command) -> None:
        """Store a command for the process that plays its episode."""
        row = {
            "id": command.id, "episode_id": command.episode_id, "name": command.name, "body": command.body
        }  # fmt: skip
        given = _insert(commands).values(row).on_conflict_do_nothing(index_elements=["id"])
        await self._journal.transact(lambda connection: connection.execute(given))

    async def outcome(self, command_id: str) -> Outcome:
        """Return the current state of a command."""
        found = await self._journal.transact(
            lambda connection: connection.execute(_OUTCOME, {"id": command_id}).first()
        )
        if found is None:
            return Outcome(None, True)
        return Outcome(found.answer, found.ended_at is not None, found.reason, found.turns)

    async def withdraw(self, command_id: str) -> bool:
        """Withdraw a command; return whether no process had taken it yet."""
        return bool(
            await self._journal.transact(
                lambda connection: connection.execute(_WITHDRAW, {"id": command_id}).rowcount
            )
        )

    async def forget(self, command_id: str) -> None:
        """Remove a command whose answer was read."""
        await self._journal.transact(lambda connection: connection.execute(_FORGET, {"id": command_id}))

    async def announce_freed(self) -> None:
        """Notify the other processes that an episode has no owner now."""
        await self._journal.transact(lambda connection: connection.execute(_FREED))

    async def take(self) -> list[Command]:
        """Return all unanswered commands for this process's episodes, in order."""

        def work(connection: Connection) -> list[Command]:
            rows = connection.execute(_TAKE, {"me": self._name}).all()
            return [Command(*row[:4]) for row in sorted(rows, key=lambda row: row.number)]

        taken: list[Command] = await self._journal.transact(work)
        return taken

    async def answer(self, command_id: str, answer: str) -> None:
        """Answer a command; no effect if another process has taken it over."""
        values = {"id": command_id, "answer": answer, "me": self._name}
        await self._journal.transact(lambda connection: connection.execute(_ANSWER, values))

    async def unowned_stops(self, limit: int) -> list[Command]:
        """Return up to ``limit`` stops of unfinished episodes that no process plays."""

        def work(connection: Connection) -> list[Command]:
            return [Command(*row) for row in connection.execute(_STOPS, {"stop": STOP, "limit": limit}).all()]

        found: list[Command] = await self._journal.transact(work)
        return found

    async def tidy(self) -> None:
        """Remove obsolete rows."""

        def work(connection: Connection) -> None:
            for statement in _TIDY:
                connection.execute(statement, {"kept": KEPT} if statement is _TIDY[0] else {})

        await self._journal.transact(work)

    async def note_starter(self, episode_id: str, digest: str) -> None:
        """Store a digest of who started an episode, until it has ended."""
        row = _insert(starters).values(episode_id=episode_id, digest=digest)
        noted = row.on_conflict_do_update(index_elements=["episode_id"], set_={"digest": digest})
        await self._journal.transact(lambda connection: connection.execute(noted))

    async def starter(self, episode_id: str) -> str | None:
        """Return the digest of who started an episode; ``None`` if unknown."""
        wanted = starters.select().where(starters.c.episode_id == episode_id)
        found = await self._journal.transact(lambda connection: connection.execute(wanted).first())
        return None if found is None else str(found.digest)

    async def secret(self, name: str, own: bytes) -> bytes:
        """Return a secret shared by all processes: that of the first one.

        Args:
            own: The secret to store if this process is the first.
        """

        def work(connection: Connection) -> bytes:
            kept = _insert(secrets).values(name=name, value=own)
            connection.execute(kept.on_conflict_do_nothing(index_elements=["name"]))
            found = connection.execute(secrets.select().where(secrets.c.name == name)).one()
            return bytes(found.value)

        shared: bytes = await self._journal.transact(work)
        return shared


def _insert(table: Table) -> Insert:
    """Make an insertion with ON CONFLICT; imports PostgreSQL's dialect only if it is used."""
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)
