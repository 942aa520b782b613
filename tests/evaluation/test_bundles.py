"""A published evaluation is checked by anybody: what is true is verified, what is changed is named."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from spectator import catalog
from spectator.evaluation.bundles import board, verification
from spectator.policies.captains import NOT_SENT, ModelCaptain
from tests.commands import run
from tests.evaluation.forging import database_of, events_of, manifest_of, of_type, rewrite
from tests.llm.brains import Said, counter, say
from tests.llm.endpoints import endpoint, write_captains

KEY = "sk-canary-4711-of-the-bundle"


class Forgetful:
    """Counts, but talks about the weather every fifth time, twice in a row."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, body: Mapping[str, Any]) -> Said:
        self.asked += 1
        said = Said("Nice weather.") if self.asked % 7 in (5, 6) else counter(body)
        served = {"provider": "fast", "system_fingerprint": f"fp_{self.asked // 7}"}
        return replace(said, served=served)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the bundle of an evaluation in which a model sometimes fails to decide."""
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patched, endpoint(Forgetful()) as fake:
        table = {
            "base_url": fake.base_url,
            "api_key_env": "FAKE_KEY",
            "extra.api_key": "sk-of-the-table",
            "extra.top_k": 40,
        }
        captains = write_captains(folder / "captains.toml", fake=table)
        patched.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        patched.setenv("FAKE_KEY", KEY)
        code, output, progress = run(
            "evaluate", "counting", "--captains", "llm:fake,heuristic", "--matches", "6",
            "--option", "turns=5", "--jobs", "1", "--out", folder / "played", "--publish", folder / "bundle",
        )  # fmt: skip
    assert code == 0, progress
    assert "added random, as in every bundle" in progress
    assert "spectator verify-bundle" in output
    yield folder


@pytest.fixture
def bundle(home: Path, tmp_path: Path) -> Path:
    """A copy of it, far from where it was made."""
    shutil.copytree(home / "bundle", tmp_path / "moved")
    return tmp_path / "moved"


def model_match(bundle: Path) -> str:
    """The id of a match in which the model decided, and failed to once."""
    results = json.loads((bundle / "manifest.json").read_text())["results"]
    with sqlite3.connect(bundle / "journal.db") as database:
        for match in results["matches"]:
            if match["home"] == "llm:fake":
                events = events_of(database, match["episode_id"])
                if any(event["data"].get("source") == "fallback" for event in events):
                    return str(match["episode_id"])
    raise AssertionError("no decision failed")


def refused(bundle: Path, *says: str) -> str:
    """The errors for a bundle that is not as claimed; they contain each of ``says``."""
    code, output, errors = run("verify-bundle", bundle)
    assert code == 1, (output, errors)
    assert "not as claimed" in errors and "Traceback" not in errors and "verified" not in output
    for one in says:
        assert one in errors, errors
    return errors


def test_a_moved_or_zipped_bundle_is_verified(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, errors = run("verify-bundle", "moved")
    assert code == 0 and not errors.replace("episodes", "").strip(), errors
    assert "verified: every decision, score, reward and interval is as claimed" in output
    assert "sealed seeds, commitment " in output
    shutil.make_archive("zipped", "zip", ".", "moved")
    code, zipped, errors = run("verify-bundle", "zipped.zip")
    assert (code, zipped) == (0, output), errors
    shutil.make_archive("flat", "zip", "moved")
    assert run("verify-bundle", "flat.zip")[:2] == (0, output)


def test_it_says_who_played_on_which_seeds_and_what_came_of_it(bundle: Path, home: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    captains = {one["name"]: one for one in manifest["captains"]}
    assert captains.keys() == {"llm:fake", "heuristic", "random"}
    assert captains["random"]["anchor"] and not captains["llm:fake"]["anchor"]
    model = captains["llm:fake"]
    assert model["fingerprint"] and model["entrants"] and model["asked"]["model"] == "fake-1"
    assert manifest["seeds"]["made"] == "sealed" and len(manifest["seeds"]["commitment"]) == 64
    assert manifest["seeds"]["phrase"] == (home / "played" / "sealed-phrase.txt").read_text().strip()
    assert manifest["results"] == json.loads((home / "played" / "results.json").read_text())
    assert sorted(path.name for path in bundle.iterdir()) == ["journal.db", "manifest.json"]


def test_neither_key_nor_address_nor_path_is_in_it(bundle: Path, home: Path) -> None:
    written = b"".join(path.read_bytes() for path in bundle.iterdir())
    for text in (KEY, "sk-of-the-table", "api_key_env", "127.0.0.1", str(home), str(Path.home()) + "/"):
        assert text.encode() not in written, text


def test_a_key_that_is_in_the_record_is_found_and_nothing_is_published(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted where it would be: in a model's answer, which the record keeps compressed beside the event."""
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(home / "captains.toml"))
    monkeypatch.setenv("FAKE_KEY", KEY)
    monkeypatch.setenv("OTHER_TOKEN", "comes next")
    target = tmp_path / "leaking"
    code, _, errors = run("evaluate", "--out", home / "played", "--publish", target)
    assert code == 1 and "the value of the variable OTHER_TOKEN" in errors and "comes next" not in errors
    assert "event " in errors and not target.exists() and list(tmp_path.iterdir()) == []


def test_a_finished_evaluation_is_published_without_naming_its_captains(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(home / "captains.toml"))
    monkeypatch.setenv("FAKE_KEY", KEY)
    target = tmp_path / "again"
    code, _, errors = run("evaluate", "--out", home / "played", "--publish", target)
    assert code == 0, errors
    first, second = (json.loads((at / "manifest.json").read_text()) for at in (home / "bundle", target))
    for manifest in (first, second):
        del manifest["published_at"], manifest["files"]
    assert first == second
    assert run("evaluate", "--out", home / "played", "--publish", target)[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("not a bundle")
    code, _, errors = run("evaluate", "--out", home / "played", "--publish", tmp_path / "mine")
    assert code == 1 and "contains files that are not a bundle" in errors
    code, _, errors = run("evaluate", "--out", tmp_path / "nothing", "--publish", target)
    assert code == 2 and "--captains" in errors


def test_an_evaluation_that_is_not_whole_is_not_published(tmp_path: Path) -> None:
    base = ("evaluate", "counting", "--captains", "heuristic,random", "--out", tmp_path / "f", "--jobs", "1")
    assert run(*base, "--matches", "2")[0] == 0
    with sqlite3.connect(tmp_path / "f" / "journal.db") as database:
        database.execute("UPDATE episodes SET reason = 'stopped' WHERE captain = 'random'")
    code, _, errors = run(*base, "--matches", "2", "--publish", tmp_path / "b")
    assert code == 0, errors  # what was stopped is played once more first
    code, output, _ = run("verify-bundle", tmp_path / "b")
    assert "development seeds" in output


def certificate(bundle: Path) -> dict[str, Any]:
    """How the model of the bundle was asked, by its results."""
    captains = json.loads((bundle / "manifest.json").read_text())["results"]["captains"]
    asked: dict[str, Any] = next(one["asked"] for one in captains if one["name"] == "llm:fake")
    return asked


def test_a_bundle_states_how_its_model_was_asked_and_what_came_back(bundle: Path, home: Path) -> None:
    asked = certificate(bundle)
    assert asked["settings"]["extra"] == {"api_key": "(masked)", "top_k": 40}
    assert asked["settings"].keys() == ModelCaptain.model_fields.keys() - NOT_SENT
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["captains"][0]["asked"] == asked["settings"]
    replies = asked["replies"]
    assert replies["requests"] == sum(replies["models"].values()) == sum(replies["finish_reasons"].values())
    assert replies["models"].keys() == {"fake-1"} and replies["finish_reasons"].keys() <= {
        "stop",
        "tool_calls",
    }
    assert replies["providers"] == {"fast": replies["requests"]}
    assert len(replies["system_fingerprints"]) > 1 and not replies["failures"]
    assert sum(replies["system_fingerprints"].values()) == replies["requests"]
    assert sum(replies["prompts"].values()) == asked["decisions"] and asked["fallbacks"]
    code, output, _ = run("verify-bundle", bundle, "--sample", "1")
    assert code == 0
    assert f"providers: fast {replies['requests']}" in output and "unparsable" in output
    report = (home / "played" / "report.html").read_text()
    assert "fp_0" in report and "top_k" in report and "sk-of-the-table" not in report


def changed_value(value: Any) -> Any:
    """Another value of the same type; ``None`` for an optional one becomes a text."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return {**value, "top_k": 41} if isinstance(value, dict) else f"{value or ''}x"


CHOICES = {
    "style": "xml", "form": "anthropic", "tool_choice": "required", "temperature": 0.5,
    "max_tokens_field": "max_completion_tokens",
}  # fmt: skip
"""Other values of settings that do not take any."""


APART = ("form", "style")
"""Settings that others are only valid with."""


@pytest.mark.parametrize(
    "settings", [sorted(ModelCaptain.model_fields.keys() - NOT_SENT - {*APART}), *([one] for one in APART)]
)
def test_every_changed_setting_is_named_by_the_recorded_calls(bundle: Path, settings: list[str]) -> None:
    with manifest_of(bundle) as manifest:
        asked = manifest["captains"][0]["asked"]
        for setting in settings:
            options = get_args(ModelCaptain.model_fields[setting].annotation)
            other = next((one for one in options if isinstance(one, str) and one != asked[setting]), None)
            asked[setting] = CHOICES.get(setting) or other or changed_value(asked[setting])
    refused(bundle, *(f"captains.llm:fake.asked.{setting}: is claimed to be " for setting in settings))


def test_every_changed_count_of_replies_is_named(bundle: Path) -> None:
    fields = ["models", "providers", "system_fingerprints", "finish_reasons", "failures", "prompts"]
    with manifest_of(bundle) as manifest:
        for one in manifest["results"]["captains"]:
            if one["name"] == "llm:fake":
                one["asked"]["replies"]["requests"] += 1
                one["asked"]["replies"] |= {field: {"another": 3} for field in fields}
    refused(bundle, *(f"results.captains.llm:fake.asked.replies.{field}" for field in ["requests", *fields]))


def test_a_changed_cause_of_failed_decisions_and_changed_settings_of_results_are_named(bundle: Path) -> None:
    with manifest_of(bundle) as manifest:
        for one in manifest["results"]["captains"]:
            if one["name"] == "llm:fake":
                one["asked"]["fallbacks"] = {"timeout": one["asked"]["fallbacks"]["unparsable"]}
                one["asked"]["settings"]["extra"]["top_k"] = 50
    errors = refused(bundle, "asked.fallbacks.timeout: is claimed to be ")
    assert "asked.settings.extra.top_k: is claimed to be 50, but is 40" in errors


def forge_reply(events: list[dict[str, Any]]) -> None:
    decided = next(event for event in events if event["data"].get("source") == "model")
    content = decided["data"]["exchanges"][0]["reply"]
    content["content"] = content["content"].replace("ACTION: ", "ACTION: 1")
    for call in content["tool_calls"]:
        call["arguments"] = call["arguments"].replace("ACTION: ", "ACTION: 1")


def forge_action(events: list[dict[str, Any]]) -> None:
    of_type(events, "decision.made")["data"]["action"] = {"text": "ACTION: 77"}


def forge_score(events: list[dict[str, Any]]) -> None:
    events[-1]["data"]["score"] = 1.0 if events[-1]["data"]["score"] != 1.0 else 0.5


def forge_source(events: list[dict[str, Any]]) -> None:
    failed = next(event for event in events if event["data"].get("source") == "fallback")
    failed["data"] |= {"source": "model", "fallback_reason": None, "parse": "ok"}
    del failed["data"]["failure_class"]


def forge_fallback(events: list[dict[str, Any]]) -> None:
    failed = next(event for event in events if event["data"].get("source") == "fallback")
    following = events[events.index(failed) - 2 :]
    assert following
    failed["data"]["action"] = {"text": "ACTION: 12345"}


def forge_fingerprint(events: list[dict[str, Any]]) -> None:
    seats = events[0]["data"]["seats"]
    next(iter(seats.values()))["fingerprint"] = "0123456789abcdef"


def forge_version(events: list[dict[str, Any]]) -> None:
    events[0]["data"]["environment_version"] = "0.9"


def forge_seed(events: list[dict[str, Any]]) -> None:
    events[0]["data"]["seed"] += 1


def forge_reward(events: list[dict[str, Any]]) -> None:
    taken = [event for event in events if event["type"] == "step.taken"]
    taken[-1]["data"]["reward"] = 0.123


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (forge_reply, ("does not match its digest", "exchanges", "call 0 behind it")[:1]),
        (forge_action, ("action: ",)),
        (forge_score, ("the score is recorded as",)),
        (forge_source, ("give a decision of source 'fallback', not 'model'",)),
        (forge_fallback, ("the failed decision must be replaced by",)),
        (forge_fingerprint, ("seats is recorded as",)),
        (forge_version, ("environment_version is recorded as '0.9'",)),
        (forge_seed, ("seed is recorded as",)),
        (forge_reward, ("step.taken differs in reward",)),
    ],
)
def test_a_forged_event_is_named_though_every_digest_was_put_right(
    bundle: Path, forge: Callable[[list[dict[str, Any]]], None], says: tuple[str, ...]
) -> None:
    episode_id = model_match(bundle)
    rewrite(bundle, episode_id, forge)
    refused(bundle, f"{episode_id}, event ", *says)


def test_a_scripted_captain_decides_the_same_again(bundle: Path) -> None:
    """Its reasons too, on which measures rest; and a decision of its own does not name another captain."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    episode_id = next(
        one["episode_id"] for one in manifest["results"]["matches"] if one["home"] == "heuristic"
    )
    rewrite(
        bundle,
        episode_id,
        lambda events: of_type(events, "decision.made")["data"].update(reasoning="Why not"),
    )
    refused(bundle, f"{episode_id}, event 2: reasoning: the captain decides ", 'recorded is "Why not"')


def change_share(manifest: dict[str, Any]) -> None:
    manifest["results"]["captains"][0]["share"]["low"] += 0.01


def change_rank(manifest: dict[str, Any]) -> None:
    manifest["results"]["captains"][0]["rank"], manifest["results"]["captains"][1]["rank"] = 2, 1


def change_outcome(manifest: dict[str, Any]) -> None:
    manifest["results"]["pairs"][0]["tally"]["wins"] += 1


def change_phrase(manifest: dict[str, Any]) -> None:
    manifest["seeds"]["phrase"] += "x"


def change_commitment(manifest: dict[str, Any]) -> None:
    manifest["seeds"]["commitment"] = "0" * 64


def change_captain(manifest: dict[str, Any]) -> None:
    manifest["captains"][0]["fingerprint"] = "0123456789abcdef"


def change_models(manifest: dict[str, Any]) -> None:
    manifest["captains"][0]["models"] = ["a-better-model"]


def change_asked(manifest: dict[str, Any]) -> None:
    manifest["captains"][0]["asked"]["style"] = "json"


def leave_out_anchor(manifest: dict[str, Any]) -> None:
    manifest["captains"] = [one for one in manifest["captains"] if one["name"] != "random"]


def fewer_matches(manifest: dict[str, Any]) -> None:
    manifest["matches"] = 4


def endless_matches(manifest: dict[str, Any]) -> None:
    manifest["matches"] = 10**9


def change_version(manifest: dict[str, Any]) -> None:
    manifest["environment_version"] = "0.9"


def change_rule(manifest: dict[str, Any]) -> None:
    manifest["failed_decisions"] = "fallback"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (change_phrase, "is missing, or has no end"),
        (change_commitment, "seeds.commitment: is not the digest of the phrase"),
        (change_captain, "seats is recorded as"),
        (change_models, "captains.llm:fake.models: is claimed to be ['a-better-model']"),
        (change_asked, "the recorded requests differ"),
        (leave_out_anchor, "the anchor 'random' is missing"),
        (fewer_matches, "it is not a match of the schedule"),
        (endless_matches, "matches: "),
        (change_version, "environment_version: it was played in version 0.9 of counting, but version"),
        (change_rule, "failed_decisions is recorded as 'random', but the schedule has"),
    ],
)
def test_a_forged_manifest_is_named(
    bundle: Path, change: Callable[[dict[str, Any]], None], says: str
) -> None:
    with manifest_of(bundle) as manifest:
        change(manifest)
    refused(bundle, says)


def test_every_forged_result_is_named(bundle: Path) -> None:
    with manifest_of(bundle) as manifest:
        for change in (change_share, change_rank, change_outcome):
            change(manifest)
    refused(
        bundle,
        "results.captains.heuristic.share.low: is claimed to be",
        ".rank: is claimed to be 2, but is 1",
        "tally.wins: is claimed to be",
    )


def test_a_match_that_is_dropped_is_missed(bundle: Path) -> None:
    episode_id = model_match(bundle)
    with database_of(bundle) as database:
        for table in ("events", "episodes", "calls", "messages"):
            database.execute(f"DELETE FROM {table} WHERE episode_id = ?", (episode_id,))
    with manifest_of(bundle) as manifest:
        manifest["episodes"] = [one for one in manifest["episodes"] if one["id"] != episode_id]
    refused(bundle, f"{episode_id}: the match of llm:fake on seed ", "is missing")
    with manifest_of(bundle) as manifest:
        manifest["matches"] -= 2
    refused(bundle, "it is not a match of the schedule")


def test_replies_that_are_changed_beside_the_events_are_named(bundle: Path) -> None:
    with database_of(bundle) as database:
        database.execute("UPDATE calls SET beside = replace(beside, 'fake-1', 'fake-9')")
    refused(bundle, "call 0 behind it does not match its digest in the event")


def test_a_changed_byte_of_a_file_is_found_before_anything_is_read(bundle: Path) -> None:
    text = bytearray((bundle / "journal.db").read_bytes())
    text[-1] ^= 1
    (bundle / "journal.db").write_bytes(text)
    refused(bundle, "journal.db does not have the SHA-256 that the manifest states")
    (bundle / "journal.db").unlink()
    refused(bundle, "journal.db is missing")


def test_a_sample_says_what_it_did_not_check(bundle: Path) -> None:
    code, output, errors = run("verify-bundle", bundle, "--sample", "2")
    assert code == 0, errors
    assert "2 of 9 episodes were replayed. NOT checked: the worlds and decisions of the other 7" in output
    assert "verified" not in output
    with manifest_of(bundle) as manifest:
        change_share(manifest)
    assert run("verify-bundle", bundle, "--sample", "1")[0] == 1


def test_digest_and_commitment_that_were_stated_elsewhere_are_compared(bundle: Path) -> None:
    _, output, _ = run("verify-bundle", bundle, "--sample", "1")
    digest = output.split("digest ")[1].split()[0]
    commitment = output.split("commitment ")[1].split()[0]
    stated = ("--sample", "1", "--digest", digest, "--commitment", commitment)
    assert run("verify-bundle", bundle, *stated)[0] == 0
    for wrong in (("--digest", "0" * 64), ("--commitment", "0" * 64)):
        code, _, errors = run("verify-bundle", bundle, "--sample", "1", *wrong)
        assert code == 1 and "stated" in errors


def test_unlisted_files_are_named_and_not_read(bundle: Path) -> None:
    (bundle / "notes.txt").write_text("hello")
    (bundle / "journal.db-wal").write_bytes(b"a log that would change what is read")
    code, output, errors = run("verify-bundle", bundle)
    assert code == 0, errors
    assert "not listed in the manifest, and not read: journal.db-wal, notes.txt" in output


def not_a_bundle(path: Path, says: str) -> None:
    code, output, errors = run("verify-bundle", path)
    assert code == 2, (output, errors)
    assert says in errors and "Traceback" not in errors and not output, errors
    assert errors.count("not a bundle") == errors.count(str(path)) == 1, f"said twice: {errors}"
    on_board = run("board", "add", path, "--data-dir", path.parent / "served")
    assert on_board == (code, output, errors), on_board


def zipped(bundle: Path, at: Path, *more: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(at, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(bundle.iterdir()):
            archive.write(path, path.name)
        for name, text in more:
            archive.writestr(name, text)
    return at


def test_what_is_not_a_bundle_is_explained_in_a_sentence(bundle: Path, tmp_path: Path) -> None:
    not_a_bundle(tmp_path / "nowhere", "no folder or zip is at this path")
    (tmp_path / "empty").mkdir()
    not_a_bundle(tmp_path / "empty", "does not contain manifest.json")
    (tmp_path / "text.zip").write_text("no zip")
    not_a_bundle(tmp_path / "text.zip", "is not a readable zip")
    torn = zipped(bundle, tmp_path / "torn.zip")
    torn.write_bytes(torn.read_bytes()[: torn.stat().st_size // 2])
    not_a_bundle(torn, "is not a readable zip")
    damaged = zipped(bundle, tmp_path / "damaged.zip")
    text = bytearray(damaged.read_bytes())
    text[2000:2100] = bytes(100)
    damaged.write_bytes(text)
    not_a_bundle(damaged, "cannot be unpacked")
    not_a_bundle(zipped(bundle, tmp_path / "up.zip", ("../../evil.txt", b"x")), "leads outside of it")
    not_a_bundle(zipped(bundle, tmp_path / "root.zip", ("/etc/evil", b"x")), "leads outside of it")
    link = zipfile.ZipInfo("journal.db-link")
    link.external_attr = 0o120777 << 16
    not_a_bundle(zipped(bundle, tmp_path / "link.zip", (link, b"/etc/passwd")), "contains the symbolic link")


def test_a_link_in_a_folder_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    os.rename(bundle / "journal.db", tmp_path / "elsewhere.db")
    (bundle / "journal.db").symlink_to(tmp_path / "elsewhere.db")
    not_a_bundle(bundle, "contains the symbolic link 'journal.db'")
    (tmp_path / "pointer").symlink_to(bundle)
    not_a_bundle(tmp_path / "pointer", "is a symbolic link")


def test_a_bundle_that_claims_ten_gigabytes_is_not_unpacked(bundle: Path, tmp_path: Path) -> None:
    with manifest_of(bundle) as manifest:
        manifest["files"]["journal.db"]["bytes"] = 10 * 2**30
        claimed = json.dumps(manifest)
    (bundle / "manifest.json").write_text(claimed)
    not_a_bundle(bundle, "at most 4,294,967,296 are read")
    bomb = zipped(bundle, tmp_path / "bomb.zip")
    text = bytearray(bomb.read_bytes())
    at = text.index(b"PK\x01\x02") + 24  # its uncompressed size in the directory (APPNOTE 4.3.12)
    text[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    bomb.write_bytes(text)
    not_a_bundle(bomb, "claims to contain")


def test_an_invalid_manifest_is_explained_by_its_field(bundle: Path) -> None:
    whole = json.loads((bundle / "manifest.json").read_text())

    def left(change: Callable[[dict[str, Any]], object]) -> None:
        manifest = json.loads(json.dumps(whole))
        change(manifest)
        (bundle / "manifest.json").write_text(json.dumps(manifest))

    left(lambda manifest: manifest.update(schema_version=2))
    not_a_bundle(bundle, "has version 2, but this version reads up to 1")
    left(lambda manifest: manifest.pop("seeds"))
    not_a_bundle(bundle, "seeds")
    left(lambda manifest: manifest["files"].update({"../x": {"sha256": "0" * 64, "bytes": 1}}))
    not_a_bundle(bundle, "not journal.db")
    left(lambda manifest: manifest["captains"][0]["asked"].update(base_url="http://127.0.0.1/v1"))
    not_a_bundle(bundle, "must not state base_url")
    (bundle / "manifest.json").write_text("[" * 100_000)
    not_a_bundle(bundle, "manifest.json is invalid")
    (bundle / "manifest.json").write_bytes(b"\xff\xfe")
    not_a_bundle(bundle, "manifest.json is invalid")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("CREATE VIEW evil AS SELECT 1", "contains the view 'evil'"),
        ("DROP TABLE truths", "lacks the table 'truths'"),
    ],
)
def test_a_database_that_computes_or_lacks_a_table_is_none(bundle: Path, statement: str, says: str) -> None:
    with database_of(bundle) as database:
        database.execute(statement)
    not_a_bundle(bundle, says)


def test_a_journal_of_random_bytes_with_the_right_digest_is_none(bundle: Path) -> None:
    (bundle / "journal.db").write_bytes(random.Random(1).randbytes(5000))
    with manifest_of(bundle):
        pass
    not_a_bundle(bundle, "journal.db is not a journal")


def test_another_version_of_the_world_says_which_software_to_use(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = replace(catalog.load_world("counting"), version="9.9")
    defaults = verification.verify_bundle.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "load", lambda name: world)
    refused(
        bundle,
        "was played in version 1.0 of counting, but version 9.9 is installed; check it with Spectator 0.1.0",
    )


def silent(body: Mapping[str, Any]) -> Said:
    """Answers something that is not an action."""
    return Said("I would rather not.")


def honest(body: Mapping[str, Any]) -> Said:
    """Says the wrong number, in good form."""
    return say(body, "say", {"text": "ACTION: 999"}, "a guess")


@pytest.mark.parametrize("rule", ["forfeit", "fallback"])
def test_forfeits_and_fallbacks_are_checked(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(silent) as fake:
        captains = write_captains(tmp_path / "captains.toml", fake={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        code, _, errors = run(
            "evaluate", "counting", "--captains", "llm:fake,heuristic", "--matches", "2",
            "--option", "turns=2", "--failed-decisions", rule, "--jobs", "1",
            "--out", tmp_path / "f", "--publish", tmp_path / "b",
        )  # fmt: skip
    assert code == 0, errors
    code, output, errors = run("verify-bundle", tmp_path / "b")
    assert code == 0 and "verified" in output, errors
    if rule == "fallback":
        return
    episode_id = json.loads((tmp_path / "b" / "manifest.json").read_text())["results"]["matches"][1][
        "episode_id"
    ]

    def forfeit(events: list[dict[str, Any]]) -> None:
        ended = events[-1]["data"]
        ended |= {
            "reason": "policy_error", "forfeited": "counter", "score": None, "result": None,
            "terminated": False, "truncated": True, "failure_class": "unparsable",
        }  # fmt: skip
        del events[2:-1]
        events[-1]["seq"] = 3

    rewrite(tmp_path / "b", episode_id, forfeit)
    refused(tmp_path / "b", f"{episode_id}, event 3")


def test_a_verified_bundle_goes_on_a_board_beside_the_journal(bundle: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    code, output, errors = run("board", "add", bundle, "--data-dir", data)
    assert code == 0 and "verified, and on the board: " in output, errors
    digest = output.split()[-1]
    assert [path.name for path in data.rglob("*") if path.is_file()] == [f"{digest}.json"]
    (kept,) = board.verified_results(data)
    assert kept.digest == digest and kept.seeds_made == "sealed" and kept.matches == 9
    assert {one.name: one.anchor for one in kept.captains} == {
        "llm:fake": False, "heuristic": True, "random": True
    }  # fmt: skip
    (model,) = [one for one in kept.captains if one.models]
    assert (model.name, model.rank is None) == ("llm:fake", model.share is None)
    assert digest[:12] in run("board", "list", "--data-dir", data)[1]
    (data / "board" / "torn.json").write_text("{")
    assert len(board.verified_results(data)) == 1
    assert run("board", "remove", "f" * 12, "--data-dir", data)[0] == 1
    assert run("board", "remove", digest[:12], "--data-dir", data)[0] == 0
    assert board.verified_results(data) == []


def test_a_bundle_that_is_not_as_claimed_is_kept_off_the_board(bundle: Path, tmp_path: Path) -> None:
    with manifest_of(bundle) as manifest:
        change_share(manifest)
    code, _, errors = run("board", "add", bundle, "--data-dir", tmp_path / "data")
    assert code == 1 and "share.low: is claimed to be" in errors and not (tmp_path / "data").exists()
    (tmp_path / "empty").mkdir()
    assert run("board", "add", tmp_path / "empty", "--data-dir", tmp_path / "data")[0] == 2
