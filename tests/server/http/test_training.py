"""``/api/episodes/{id}/truth`` and ``/calls``: sealed until the end, and prompts for the operator alone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from spectator.events import encode_json
from spectator.journal.contract import Attachments
from spectator.journal.sql_journal import SqlJournal
from tests.journal.calls import call_of, decided, user
from tests.journal.records import ended, started, url_of
from tests.journal.test_conformance import end_with, started_for
from tests.serving import serve, test_settings

TRUTH = {"mass_gev": 91.2, "é": [1]}
TOKEN = "operator-token-of-a-test"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An ended episode with calls and truth, one that has not ended, one that ended without a truth."""

    async def scenario() -> None:
        journal = await SqlJournal.open(url_of(tmp_path))
        text = encode_json(TRUTH)
        call = call_of([user("the secret of this seat")], tokens=[7])
        await journal.append([started_for("ep-1", run_id="run-1", group_id="g", attempt=3)])
        await journal.append([decided("ep-1", 2, [call])], attachments=Attachments(calls=[[call]]))
        await journal.append([end_with(text, "ep-1", 3)], attachments=Attachments(truth=text))
        await journal.append([started("ep-2"), ended("ep-2", 2)])
        await journal.aclose()

    asyncio.run(scenario())
    return tmp_path


def test_the_truth_is_there_once_the_episode_has_ended(folder: Path) -> None:
    with serve(test_settings(folder)) as serving:
        answer = serving.client.get("/api/episodes/ep-1/truth")
        assert (answer.status_code, answer.json()) == (200, {"episode_id": "ep-1", "truth": TRUTH})
        assert answer.headers["content-type"] == "application/json"
        none = serving.client.get("/api/episodes/ep-2/truth")
        assert (none.status_code, none.json()["type"]) == (404, "/problems/no-truth")
        absent = serving.client.get("/api/episodes/ep-9/truth")
        assert (absent.status_code, absent.json()["type"]) == (404, "/problems/episode-not-found")
        running = serving.start(pace="broadcast", options={"turns": 1000})
        sealed = serving.client.get(f"/api/episodes/{running}/truth")
        assert (sealed.status_code, sealed.json()["type"]) == (409, "/problems/truth-sealed")
        assert "sealed until it has ended" in sealed.json()["detail"]


def test_prompts_are_the_operators_and_nobody_elses(folder: Path) -> None:
    with serve(test_settings(folder, operator_token=TOKEN)) as serving:
        refused = serving.client.get("/api/episodes/ep-1/calls")
        assert refused.status_code == 401 and "secret" not in refused.text
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = serving.client.get("/api/episodes/ep-1/calls", headers=headers)
        (row,) = map(json.loads, answer.text.splitlines())
        assert row["messages"] == [user("the secret of this seat")] and row["token_ids"] == [7]
        assert row["run_id"] == "run-1" and "no-store" in answer.headers["cache-control"]
        later = serving.client.get("/api/episodes/ep-1/calls?after_seq=2", headers=headers)
        assert (later.status_code, later.text) == (200, "")
        early = serving.client.get("/api/episodes/ep-1/calls?until_seq=1", headers=headers)
        one = serving.client.get("/api/episodes/ep-1/calls?after_seq=1&until_seq=2", headers=headers)
        assert (early.text, [json.loads(line)["seq"] for line in one.text.splitlines()]) == ("", [2])
        assert serving.client.get("/api/episodes/ep-9/calls", headers=headers).status_code == 404
        for public in ("", "/events", "/export"):
            assert "secret" not in serving.client.get(f"/api/episodes/ep-1{public}").text


def test_without_a_token_prompts_are_for_the_servers_own_machine(folder: Path) -> None:
    with serve(test_settings(folder)) as serving:
        assert serving.client.get("/api/episodes/ep-1/calls").status_code == 200
        passed_on = {"X-Forwarded-For": "203.0.113.9"}
        assert serving.client.get("/api/episodes/ep-1/calls", headers=passed_on).status_code == 403


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("run_id=run-1", ["ep-1"]),
        ("run_id=run-2", []),
        ("group_id=g&attempt=3", ["ep-1"]),
        ("attempt=2", []),
        ("", ["ep-2", "ep-1"]),
    ],
)
def test_the_history_is_filtered_by_run_group_and_attempt(folder: Path, query: str, found: list[str]) -> None:
    with serve(test_settings(folder)) as serving:
        episodes = serving.client.get(f"/api/episodes?{query}").json()["episodes"]
        assert [one["episode_id"] for one in episodes] == found
        for one in episodes:
            told: Any = (one["run_id"], one["group_id"], one["attempt"])
            assert told == (("run-1", "g", 3) if one["episode_id"] == "ep-1" else (None, None, None))


@pytest.mark.parametrize("query", ["attempt=0", "attempt=x", f"run_id={'a' * 65}", f"attempt={2**70}"])
def test_a_wrong_run_is_refused_by_name(folder: Path, query: str) -> None:
    with serve(test_settings(folder)) as serving:
        answer = serving.client.get(f"/api/episodes?{query}")
        assert answer.status_code == 422
        assert [wrong["field"] for wrong in answer.json()["errors"]] == [query.partition("=")[0]]
