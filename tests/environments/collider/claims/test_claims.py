from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from spectator.environments.collider.claim_file import recompute
from spectator.environments.collider.claims import (
    ClaimFile,
    ClaimReport,
    check_claim,
    export_claim,
    read_claim,
)
from spectator.errors import EpisodeNotFound, InvalidRequest, JournalDamaged
from spectator.journal.sql_journal import SqlJournal
from tests.commands import spectator
from tests.environments.collider.claims.stories import (
    EPISODE,
    Fact,
    claimed,
    digest_of,
    events,
    file_of,
    frozen,
    nothing,
    signal_free,
    unblinded,
)
from tests.journal.records import run, url_of


def checked(claim: ClaimFile, digest: str | None = None) -> ClaimReport:
    """Check a claim written by hand, which no replay produces; test_claim_replay.py has played ones."""
    return check_claim(claim, replay=lambda events: [], digest=digest)


def failed(report: ClaimReport) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


def test_an_honest_claim_holds_in_every_check() -> None:
    report = checked(file_of(frozen(), unblinded(), claimed()))
    assert report.ok, report
    names = [check.name for check in report.checks]
    assert names == [
        "chain", "replay", "order", "fresh data", "looks", "contents", "significance", "mass", "mass error",
        "pyhf",
    ]  # fmt: skip


def test_a_file_survives_its_text_and_a_digest_that_was_stated() -> None:
    claim = file_of(frozen(), unblinded(), claimed())
    again = read_claim(claim.model_dump_json(indent=1))
    assert again == claim
    assert checked(again, digest=claim.digest).ok
    assert failed(checked(again, digest="0" * 64)) == ["chain"]


def test_a_limit_where_there_is_nothing_is_checked_too() -> None:
    honest = file_of(frozen(), signal_free(), nothing(limit=200.0))
    assert honest.limit is not None
    assert checked(file_of(frozen(), signal_free(), nothing(limit=honest.limit))).ok
    bold = checked(file_of(frozen(), signal_free(), nothing(limit=0.3 * honest.limit)))
    assert failed(bold) == ["limit"]


WRONG: dict[str, tuple[tuple[Fact, ...], str]] = {
    "opened before the freeze": ((unblinded(), frozen(), claimed()), "order"),
    "opened before, under another selection": (
        (frozen("sel-0"), unblinded("sel-0"), frozen(), unblinded(), claimed()),
        "fresh data",
    ),
    "a significance that is not there": ((frozen(), unblinded(), claimed(z_local=9.9)), "significance"),
    "a local one that is called global": (
        (frozen(), unblinded(), claimed(z_local=9.3, z_global=9.2)),
        "significance",
    ),
    "another mass": ((frozen(), unblinded(), claimed(mass_gev=128.5)), "mass"),
    "a smaller error": ((frozen(), unblinded(), claimed(mass_error_gev=0.01)), "mass error"),
    "nothing there": ((frozen(), signal_free(), claimed()), "significance"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_claim_that_breaks_a_rule_is_told(case: str) -> None:
    facts, name = WRONG[case]
    assert name in failed(checked(file_of(*facts)))


def test_fresh_runs_under_a_second_selection_are_fine() -> None:
    earlier = (frozen("sel-0"), unblinded("sel-0", ["run-0"]), frozen())
    assert checked(file_of(*earlier, unblinded(runs=["run-1"], look=2), claimed())).ok
    free = checked(file_of(*earlier, unblinded(runs=["run-1"], look=1), claimed()))
    assert failed(free) == ["looks"]


def rechained(claim: ClaimFile, change: Callable[[list[str]], object]) -> ClaimFile:
    """The file with other events and a chain that fits them: a forgery with knowledge of the format."""
    texts = list(claim.events)
    change(texts)
    return claim.model_copy(update={"events": texts, "digest": digest_of(texts)})


def test_a_changed_event_breaks_the_chain() -> None:
    claim = file_of(frozen(), unblinded(), claimed())
    texts = [text.replace('"z_local":7.5', '"z_local":6.0') for text in claim.events]
    assert texts != claim.events
    assert failed(checked(claim.model_copy(update={"events": texts}))) == ["chain"]


def test_a_left_out_event_breaks_the_chain() -> None:
    claim = file_of(frozen(), unblinded(), claimed())
    forged = rechained(claim, lambda texts: texts.pop(2))
    assert failed(checked(forged)) == ["chain"]
    cut = rechained(claim, lambda texts: texts.pop(0))
    assert failed(checked(cut)) == ["chain"]


def test_an_event_of_another_episode_breaks_the_chain() -> None:
    claim = file_of(frozen(), unblinded(), claimed())

    def swap(texts: list[str]) -> None:
        texts[2] = texts[2].replace(EPISODE, "ep-other")

    assert failed(checked(rechained(claim, swap))) == ["chain"]


def test_a_forged_chain_is_told_by_a_digest_stated_before() -> None:
    claim = file_of(frozen(), unblinded(), claimed())

    def lower(texts: list[str]) -> None:
        texts[3] = texts[3].replace('"mass_gev":125.0', '"mass_gev":125.2')

    forged = rechained(claim, lower)
    assert "contents" in failed(checked(forged))
    assert failed(checked(forged, digest=claim.digest)) == ["chain"]


@pytest.mark.parametrize(
    ("field", "change"),
    [("claim", {"z_local": 6.0}), ("spectra", None), ("measured", {"z_local": 12.0}), ("selection_seq", 9)],
)
def test_what_stands_beside_the_events_cannot_be_changed(field: str, change: Any) -> None:
    text = json.loads(file_of(frozen(), unblinded(), claimed()).model_dump_json())
    if field == "spectra":
        text["spectra"][0]["counts"][30] += 40
    elif isinstance(change, dict):
        text[field].update(change)
    else:
        text[field] = change
    assert failed(checked(read_claim(json.dumps(text)))) == ["contents"]


def test_a_workspace_with_other_data_is_told() -> None:
    text = json.loads(file_of(frozen(), unblinded(), claimed()).model_dump_json())
    text["workspaces"]["diphoton"]["observations"][0]["data"][30] += 40
    assert failed(checked(read_claim(json.dumps(text)))) == ["contents"]


def test_the_workspace_is_one_of_pyhf() -> None:
    spec = file_of(frozen(), unblinded(), claimed()).workspaces["diphoton"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyhf

        pyhf.schema.validate(spec, "workspace.json")
        model = pyhf.Workspace(spec).model()
    assert model.config.poi_name == "mu"


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ((frozen(), unblinded()), "episode_id"),
        ((unblinded(), claimed()), "selection_id"),
        ((frozen(), claimed()), "channels"),
        ((frozen(background="auto"), unblinded(), claimed()), "channels.0"),
        ((frozen(), unblinded(), claimed(mass_gev=-3.0)), "mass_gev"),
        ((frozen(), unblinded(), claimed(mass_gev=125_000.0)), "masses_gev"),
        ((frozen(), unblinded(), claimed(z_local=None)), "body"),
    ],
)
def test_an_episode_without_a_whole_claim_has_no_file(facts: tuple[Fact, ...], field: str) -> None:
    with pytest.raises(InvalidRequest) as rejected:
        file_of(*facts)
    assert rejected.value.fields[0].field == field


def test_a_stretch_of_zero_counts_is_no_evidence() -> None:
    name, data = unblinded()
    with pytest.raises(InvalidRequest, match="opened before the claim"):
        file_of(frozen(), (name, {**data, "counts": [0] * 60}), claimed())


def test_recomputing_gives_the_same_each_time() -> None:
    claim = file_of(frozen(), unblinded(), claimed())
    spectra = {one.channel: one for one in claim.spectra}
    assert recompute(claim.selection.channels, spectra, 125.0) == claim.measured


async def write(folder: Path, *facts: Fact) -> None:
    journal = await SqlJournal.open(url_of(folder), writable=True)
    await journal.append(events(*facts))
    await journal.aclose()


def played(folder: Path) -> str:
    """Play an easy campaign; its episode's id."""
    arguments = ["play", "collider", "--seed", "1", "--captain", "heuristic", "--option", "difficulty=easy"]
    played = spectator(*arguments, "--data-dir", folder)
    assert played.exit_code == 0, played.output
    return str(json.loads(played.stdout.splitlines()[0])["episode_id"])


def command(*arguments: str) -> Result:
    return spectator("claim", *arguments)


def test_the_command_exports_and_checks(tmp_path: Path) -> None:
    episode_id = played(tmp_path)
    file = tmp_path / "claim.json"
    exported = command("export", episode_id, "--data-dir", str(tmp_path), "--out", str(file))
    assert exported.exit_code == 0, exported.output
    checked = command("check", str(file))
    assert checked.exit_code == 0, checked.output
    assert checked.stdout.count("ok  ") == 10
    claim = read_claim(file.read_text())
    assert claim.claim.kind == "discovery"
    assert command("check", str(file), "--digest", claim.digest).exit_code == 0
    assert command("check", str(file), "--digest", "0" * 64).exit_code == 1
    assert "64 hexadecimal" in command("check", str(file), "--digest", "ab").output
    to_stdout = command("export", episode_id, "--data-dir", str(tmp_path))
    assert read_claim(to_stdout.stdout) == claim


def test_the_command_tells_what_does_not_hold(tmp_path: Path) -> None:
    file = tmp_path / "claim.json"
    file.write_text(file_of(frozen(), unblinded(), claimed(z_local=9.9)).model_dump_json())
    checked = command("check", str(file))
    assert checked.exit_code == 1
    assert "FAIL significance: claimed 9.90 local" in checked.output
    file.write_text("{}")
    assert "Field required" in command("check", str(file)).output
    file.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in command("check", str(file)).output


def test_a_journal_without_the_episode_or_with_a_damaged_one_is_told(tmp_path: Path) -> None:
    run(write(tmp_path, frozen(), unblinded(), claimed()))

    async def exported(episode_id: str) -> ClaimFile:
        journal = await SqlJournal.open(url_of(tmp_path), writable=False)
        try:
            return await export_claim(journal, episode_id)
        finally:
            await journal.aclose()

    with pytest.raises(EpisodeNotFound):
        run(exported("ep-unknown"))
    import sqlite3

    connection = sqlite3.connect(tmp_path / "journal.db")
    for trigger in connection.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        connection.execute(f"drop trigger {trigger[0]}")
    tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
    assert "events" in tables
    columns = [row[1] for row in connection.execute("pragma table_info(events)")]
    kept = next(name for name in ("text", "payload", "body", "line") if name in columns)
    changed = connection.execute(f"update events set {kept} = replace({kept}, '7.5', '9.5') where seq = 4")
    assert changed.rowcount == 1
    connection.commit()
    connection.close()
    with pytest.raises(JournalDamaged, match="event 4"):
        run(exported(EPISODE))
