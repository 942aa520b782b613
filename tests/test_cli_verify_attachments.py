"""`spectator verify` finds whatever is changed, removed or put in beside the events."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from spectator.events import encode_json
from spectator.journal.contract import Attachments
from spectator.journal.encoding import compressed
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.calls import call_of, decided, user
from tests.journal.records import run, started, url_of
from tests.journal.test_conformance import end_with

TRUTH = encode_json({"hidden": "x" * 400})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(folder))
        await journal.append([started("ep-1")])
        shown = [user("1?")]
        for seq in (2, 3, 4):
            calls = [call_of(shown, f"answer {seq}", tokens=[seq], logprobs=[-0.5], prompt=range(seq))]
            calls.append(replace(calls[0], messages=[*shown, user("again")]))
            event = decided("ep-1", seq, calls, long=seq == 4)
            await journal.append([event], attachments=Attachments(calls=[calls]))
            shown = [*shown, user(f"{seq}?")]
        await journal.append([end_with(TRUTH, "ep-1", 5)], attachments=Attachments(truth=TRUTH))
        await journal.aclose()

    run(scenario())
    return folder


def verified(folder: Path) -> tuple[int, str]:
    result = spectator("verify", "ep-1", "--chain-only", "--data-dir", folder)
    return result.exit_code, result.output


def test_what_is_as_it_was_recorded_passes(recorded: Path) -> None:
    code, output = verified(recorded)
    assert code == 0, output


def forge_message(connection: sqlite3.Connection) -> None:
    """A forger who knows how messages are kept: body and digest fit, in the prompt too."""
    from hashlib import sha256

    forged = encode_json(user("forged")).encode()
    old = sha256(encode_json(user("1?")).encode()).digest()
    new = sha256(forged).digest()
    connection.execute("UPDATE messages SET digest = ?, body = ? WHERE digest = ?", (new, forged, old))
    for seq, place, refs in connection.execute("SELECT seq, place, messages FROM calls").fetchall():
        connection.execute(
            "UPDATE calls SET messages = ? WHERE seq = ? AND place = ?", (refs.replace(old, new), seq, place)
        )


def put_in(connection: sqlite3.Connection) -> None:
    rows = connection.execute("SELECT * FROM calls WHERE seq = 4 AND place = 1").fetchall()
    marks = ",".join("?" * len(rows[0]))
    connection.execute(f"INSERT INTO calls VALUES ({marks})", (rows[0][0], 4, 2, *rows[0][3:]))


def other_truth(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE truths SET body = ?", (compressed(b'{"hidden":"y"}'),))


def run_sql(statement: str) -> Callable[[sqlite3.Connection], None]:
    def act(connection: sqlite3.Connection) -> None:
        connection.execute(statement)

    return act


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (forge_message, "event 2: call 0 behind it does not match the messages"),
        (
            run_sql("UPDATE calls SET logprobs = x'6600000000' WHERE seq = 3"),
            "event 3: call 0 behind it does not match its digest",
        ),
        (
            run_sql("UPDATE calls SET token_ids = NULL WHERE seq = 3"),
            "event 3: call 0 behind it does not match its digest",
        ),
        (
            run_sql("UPDATE calls SET reply = NULL WHERE seq = 4"),
            "event 4: call 0 behind it does not match its digest",
        ),
        (run_sql("DELETE FROM calls WHERE seq = 4"), "event 4: call 1 behind it is missing"),
        (run_sql("DELETE FROM calls WHERE seq = 3"), "call 0 of event 4: the previous tokens are missing"),
        (run_sql("DELETE FROM messages"), "is missing"),
        (put_in, "cannot be read: call 2 of event 4"),
        (run_sql("DELETE FROM truths"), "event 5: its truth is missing"),
        (other_truth, "event 5: the truth does not match its digest in the event"),
        (run_sql("UPDATE truths SET body = x'00'"), "event 5: the truth of ep-1 cannot be read"),
    ],
)
def test_whatever_is_changed_beside_the_events_is_found(
    recorded: Path, tmp_path: Path, tamper: Callable[[sqlite3.Connection], None], says: str
) -> None:
    shutil.copy(recorded / "journal.db", tmp_path / "journal.db")
    with closing(sqlite3.connect(tmp_path / "journal.db")) as connection:
        tamper(connection)
        connection.commit()
    code, output = verified(tmp_path)
    assert code == 1 and says in output, output
    assert "model calls or the truth of ep-1 were changed or are missing" in output
