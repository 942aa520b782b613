"""Whatever is done to a record after it was written is named by its number."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from spectator.journal.contract import Chain, Link, extend
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.journal.records import ended, run, said, started, url_of

LENGTH = 12
EPISODE = "WHERE episode_id = 'ep-1'"


def write(folder: Path) -> str:
    """A whole episode of a world that is not here; returns its digest."""

    async def scenario() -> str:
        journal = await SqlJournal.open(url_of(folder))
        first = started("ep-1", environment="elsewhere")
        await journal.append([first])
        for seq in range(2, LENGTH):
            await journal.append([said("ep-1", seq, f"number {seq}")])
        await journal.append([ended("ep-1", LENGTH)])
        await journal.append([started("ep-0")])
        summary = await journal.episode("ep-1")
        await journal.aclose()
        assert summary is not None
        assert summary.digest is not None
        return summary.digest

    return run(scenario())


def check(folder: Path) -> Result:
    return spectator("verify", "ep-1", "--data-dir", str(folder), "--chain-only")


def test_the_chain_is_what_the_page_says_it_is(tmp_path: Path) -> None:
    """The ten lines of docs/journal.md, on an exported file."""
    digest = write(tmp_path)
    out = tmp_path / "episode.ndjson"
    assert spectator("export", "ep-1", "--data-dir", str(tmp_path), "--out", str(out)).exit_code == 0
    again = bytes(32)
    for line in out.read_bytes().splitlines():
        again = hashlib.sha256(again + line).digest()
    assert again.hex() == digest
    checked = check(tmp_path)
    assert checked.exit_code == 0
    assert checked.stdout == f"ep-1: {LENGTH} events, digest {digest}\n"


def replace_text(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE events SET text = replace(text, 'number 5', 'number 6') WHERE seq = 5")


def swap(connection: sqlite3.Connection) -> None:
    five, six = (
        connection.execute(
            "SELECT text, digest FROM events WHERE episode_id='ep-1' AND seq=?", (seq,)
        ).fetchone()
        for seq in (5, 6)
    )
    for seq, row in ((5, six), (6, five)):
        connection.execute("UPDATE events SET text = ?, digest = ? WHERE seq = ?", (*row, seq))


def insert(connection: sqlite3.Connection) -> None:
    """Number 5 becomes 6 and so on; a forged 5 takes its place, with a digest that fits."""
    rows = connection.execute(f"SELECT seq, text, digest FROM events {EPISODE} ORDER BY seq").fetchall()
    connection.execute("DELETE FROM events WHERE episode_id='ep-1' AND seq >= 5")
    forged = said("ep-1", 5, "forged").text
    connection.execute("INSERT INTO events VALUES ('ep-1', 5, ?, ?)", (forged, extend(rows[3][2], forged)))
    for seq, text, digest in rows[4:]:
        moved = json.dumps({**json.loads(text), "seq": seq + 1}, separators=(",", ":"))
        connection.execute("INSERT INTO events VALUES ('ep-1', ?, ?, ?)", (seq + 1, moved, digest))


def remove(where: str) -> Callable[[sqlite3.Connection], None]:
    def act(connection: sqlite3.Connection) -> None:
        connection.execute(f"DELETE FROM events WHERE episode_id = 'ep-1' AND {where}")

    return act


def append(connection: sqlite3.Connection) -> None:
    last = connection.execute(
        "SELECT digest FROM events WHERE episode_id='ep-1' AND seq=?", (LENGTH,)
    ).fetchone()[0]
    text = said("ep-1", LENGTH + 1).text
    connection.execute("INSERT INTO events VALUES ('ep-1', ?, ?, ?)", (LENGTH + 1, text, extend(last, text)))


@pytest.mark.parametrize(
    ("tamper", "names"),
    [
        (replace_text, ["event 5: does not match its digest"]),
        (swap, ["event 5: contains event 6 of ep-1", "event 6: contains event 5 of ep-1"]),
        (insert, ["event 6: does not match its digest"]),
        (remove("seq = 5"), ["event 6: follows event 4: event 5 is missing"]),
        (remove("seq IN (5, 6, 7)"), ["event 8: follows event 4: events 5 to 7 are missing"]),
        (remove("seq = 1"), ["event 2: follows event 0: event 1 is missing"]),
        (remove("seq > 10"), ["event 11: is missing, like all later ones up to event 12"]),
        (append, [f"event {LENGTH + 1}: was added after the end"]),
        (
            lambda connection: connection.execute("UPDATE events SET text = 'x' WHERE seq = 7"),
            ["event 7: is not a valid event"],
        ),
        (
            lambda connection: connection.execute("UPDATE events SET digest = zeroblob(32) WHERE seq = 9"),
            ["event 9: does not match its digest", "event 10: does not match its digest"],
        ),
        (
            lambda connection: connection.execute("UPDATE episodes SET end_digest = zeroblob(32)"),
            [f"event {LENGTH}: has the digest"],
        ),
    ],
    ids=[
        "changed",
        "swapped",
        "inserted",
        "removed",
        "three removed",
        "no beginning",
        "cut off",
        "added",
        "no JSON",
        "digest changed",
        "end changed",
    ],
)
def test_tampering_is_named_by_its_number(
    tmp_path: Path, tamper: Callable[[sqlite3.Connection], None], names: list[str]
) -> None:
    write(tmp_path)
    with sqlite3.connect(tmp_path / "journal.db") as connection:
        tamper(connection)
    connection.close()
    result = check(tmp_path)
    assert result.exit_code == 1
    assert "ep-1 was changed after it was recorded" in result.stderr
    for name in names:
        assert name in result.stderr


def test_any_change_of_any_byte_is_seen(tmp_path: Path) -> None:
    texts = [started("ep-1").text, *(said("ep-1", seq).text for seq in range(2, 9))]
    digests, digest = [], bytes(32)
    for text in texts:
        digest = extend(digest, text)
        digests += [digest]
    draw = random.Random(4)
    for _ in range(300):
        where = draw.randrange(len(texts))
        at = draw.randrange(len(texts[where]))
        changed = texts[where][:at] + chr(draw.randrange(32, 127)) + texts[where][at + 1 :]
        if changed == texts[where]:
            continue
        links = [
            Link("ep-1", seq, changed if seq == where + 1 else text, kept)
            for seq, (text, kept) in enumerate(zip(texts, digests, strict=True), 1)
        ]
        assert [broken.seq for broken in Chain().check(links)] == [where + 1]


def test_an_exported_file_is_checked_against_a_digest_stated_elsewhere(tmp_path: Path) -> None:
    played = spectator("play", "counting", "--data-dir", str(tmp_path))
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    out = tmp_path / "episode.ndjson"
    exported = spectator(
        "export", episode_id, "--data-dir", str(tmp_path), "--out", str(out), "--as-recorded"
    )
    digest = exported.stderr.strip().rpartition(" ")[2]
    good = spectator("verify", str(out), "--digest", digest)
    assert good.exit_code == 0
    assert digest in good.stdout
    assert "every event matches the replay of its seed and decisions" in good.stdout

    lines = out.read_text(encoding="utf-8").splitlines()
    forged = [*lines[:4], lines[4].replace('"at":"2', '"at":"1'), *lines[5:]]
    assert forged != lines
    for told, why in (
        (forged, "is expected"),
        (lines[:-1], "is expected"),
        ([*lines[:3], *lines[4:]], "event 5: follows event 3: event 4 is missing"),
        ([*lines[:-1], lines[-1][:20]], f"line {len(lines)} is not an event"),
    ):
        out.write_text("\n".join(told) + "\n", encoding="utf-8")
        result = spectator("verify", str(out), "--digest", digest)
        assert result.exit_code == 1
        assert why in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["verify", "nothing.ndjson"], "there is no file nothing.ndjson"),
        (["verify", "ep-1", "--digest", "abc"], "must be 64 hexadecimal digits"),
        (["verify", "nobody"], "no episode 'nobody'"),
        (["verify", "ep-1"], "cannot be replayed here"),
        (["export"], "give either episode ids or --all"),
        (["export", "ep-1", "--all"], "give either episode ids or --all"),
        (["export", "ep-1", "--captain", "a"], "need --all"),
        (["export", "ep-1", "--format", "parquet"], "needs --out"),
        (["export", "--all", "--environment", "chess"], "no episode matches"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: list[str], says: str) -> None:
    write(tmp_path)
    result = spectator(*arguments, "--data-dir", str(tmp_path))
    assert result.exit_code != 0
    assert says in result.stderr
