"""Runs of rollouts over HTTP and socket: the list, one run live, a group with its branches, its episodes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from server.settings import Settings
from spectator.json_values import apply_patch
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode
from tests.commands import spectator
from tests.following.gated_run import gated_run
from tests.rollouts.exported_run import play_run
from tests.serving import Serving, serve, test_settings


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    play_run(root / "first")
    (root / "later").mkdir()
    (root / "later" / "rollouts.json").write_text('{"request": {"format": 7}}')
    return root


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def watching(root: Path, data: Path) -> Iterator[Serving]:
    settings = test_settings(data, runs_dir=root, max_episodes=4)
    with serve(settings) as running:
        yield running


def run_of(serving: Serving, name: str = "first") -> dict[str, Any]:
    answer = serving.client.get(f"/api/rollouts/{name}")
    assert answer.status_code == 200, answer.text
    run: dict[str, Any] = answer.json()["run"]
    return run


def test_the_list_tells_what_can_be_shown_and_why_not(watching: Serving) -> None:
    told = watching.client.get("/api/rollouts").json()
    runs = {one["name"]: one for one in told["runs"]}
    assert told["watched"] is True
    assert runs["first"]["over"] == runs["first"]["episodes"]
    assert "version 7" in runs["later"]["problem"]


def test_the_series_are_those_of_the_run_without_its_episodes(watching: Serving) -> None:
    told = watching.client.get("/api/rollouts/first/series")
    run = run_of(watching)
    omitted = {name: run.pop(name) for name in ("groups", "slowest", "failed")}
    assert told.json() == run and all(
        one not in told.text for one in omitted["groups"]["g-000000"]["members"]
    )
    points = list(run["series"]["episodes"]["points"].values())
    assert sum(point["over"] for point in points) == run["over"] == points[-1]["at"]
    assert sum(point["verdicts"] for point in points) == run["verdicts"]
    assert run["tokens_out"] > 0 and run["uncounted"] == 0
    assert run["configuration"]["sampling"]["model"] == "m-1"
    assert "127.0.0.1" not in told.text


@pytest.mark.parametrize("what", ["", "/series"])
@pytest.mark.parametrize("name", ["none", "later", "..%2Ffirst"])
def test_a_run_that_cannot_be_shown_is_a_problem_in_words(watching: Serving, name: str, what: str) -> None:
    answer = watching.client.get(f"/api/rollouts/{name}{what}")
    assert answer.status_code in (404, 422)
    assert answer.json()["title"]


def test_every_episode_of_a_run_opens_as_any_other(watching: Serving) -> None:
    group = next(one for one in run_of(watching)["groups"].values() if one["usable"])
    episode_id = next(iter(group["members"]))
    entry = watching.client.get(f"/api/episodes/{episode_id}").json()
    lines = watching.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, entry["head_seq"] + 1))
    assert watching.client.get(f"/watch/{episode_id}").status_code == 200
    export = watching.client.get(f"/api/episodes/{episode_id}/export", params={"recorded": "true"})
    assert export.status_code == 200 and json.loads(export.text.splitlines()[0])["seq"] == 1
    calls = [
        json.loads(line)
        for line in watching.client.get(f"/api/episodes/{episode_id}/calls").text.splitlines()
    ]
    assert calls and calls[0]["token_ids"]
    with connect(f"{watching.ws_url}/live/{episode_id}") as socket:
        assert json.loads(socket.recv())["episode_id"] == episode_id
        assert json.loads(socket.recv())["state"]["episode"]["status"] == "ended"


def test_calls_are_found_by_turn_since_views_have_numbers_of_their_own(watching: Serving) -> None:
    members = [one for group in run_of(watching)["groups"].values() for one in group["members"]]
    renumbered = 0
    for episode_id in members:
        address = f"/api/episodes/{episode_id}"
        events = [json.loads(line) for line in watching.client.get(f"{address}/events").text.splitlines()]
        seqs = {one["turn"]: one["seq"] for one in events if one["type"] == "decision.made"}
        calls = [json.loads(line) for line in watching.client.get(f"{address}/calls").text.splitlines()]
        if not calls:
            continue
        turn = calls[-1]["turn"]
        found = watching.client.get(f"{address}/calls", params={"turn": turn}).text.splitlines()
        assert [json.loads(line) for line in found] == [one for one in calls if one["turn"] == turn]
        renumbered += any(seqs.get(one["turn"], one["seq"]) != one["seq"] for one in calls)
    assert renumbered


def test_the_inspector_reads_the_words_of_a_recorded_run(tmp_path: Path) -> None:
    with RecordedRun(tmp_path / "runs" / "worded", group_size=2, model="Tiny") as run:
        episode = TextEpisode("counting", {"turns": 1}, run=run)
        prompt = episode.reset(seed=7)
        refusal = episode.answer("I would rather talk.")
        episode.answer('Now. {"tool": "say", "arguments": {"text": "ACTION: 1"}}')
    with serve(test_settings(tmp_path / "data", runs_dir=tmp_path / "runs")) as watching:
        (group,) = run_of(watching, "worded")["groups"].values()
        (name,) = group["members"]
        events, calls = (
            list(map(json.loads, watching.client.get(f"/api/episodes/{name}/{of}").text.splitlines()))
            for of in ("events", "calls")
        )
    made = [one["data"] for one in events if one["type"] == "decision.made"]
    assert [len(one["exchanges"]) for one in made] == [2], "it was asked again once"
    assert [one["reply"]["content"].partition(" ")[0] for one in calls] == ["I", "Now."]
    assert [one["content"] for one in calls[1]["messages"]] == [prompt, "I would rather talk.", refusal]


def test_what_an_episode_of_a_run_is_not(watching: Serving) -> None:
    """It is not in the server's own history, and cannot be deleted from here."""
    member = next(iter(run_of(watching)["groups"]["g-000000"]["members"]))
    assert watching.client.get("/api/episodes").json()["episodes"] == []
    assert watching.client.request("DELETE", f"/api/episodes/{member}").status_code == 409
    assert watching.client.get(f"/api/episodes/{member}").status_code == 200


def test_a_fork_of_a_sibling_is_a_branch_of_its_group(watching: Serving) -> None:
    groups = run_of(watching)["groups"]
    name, parent = next(
        (name, member) for name, group in groups.items() for member, one in group["members"].items()
        if one["standing"] == "over"
    )  # fmt: skip
    events = [
        json.loads(line) for line in watching.client.get(f"/api/episodes/{parent}/events").text.splitlines()
    ]
    seq = [one["seq"] for one in events if one["turn"] == 1][-1]
    body = {"episode_id": parent, "seq": seq, "captain_preset": "heuristic", "pace": "max"}
    answer = watching.client.post("/custom/fork", json=body)
    assert answer.status_code == 202, answer.text
    fork = answer.json()["episode_id"]
    told = watching.client.get(f"/api/groups/{name}", params={"run": "first"}).json()
    assert (told["branches"][fork]["parent"], told["branches"][fork]["seq"]) == (parent, seq)
    assert fork not in told["members"]
    assert run_of(watching)["begun"] == sum(len(one["members"]) + one["again"] for one in groups.values())
    here = watching.client.get(f"/api/groups/{name}").json()
    assert here["run"] == "first"
    body |= {"episode_id": fork, "seq": seq}
    branch = watching.client.post("/custom/fork", json=body).json()["episode_id"]
    told = watching.client.get(f"/api/groups/{name}", params={"run": "first"}).json()
    assert {one: told["branches"][one]["parent"] for one in (fork, branch)} == {fork: parent, branch: fork}
    assert set(told["heads"]) >= set(told["members"])


def test_labels_by_people_become_preferences_and_touch_no_record(
    watching: Serving, root: Path, data: Path, tmp_path: Path
) -> None:
    groups = run_of(watching)["groups"].values()
    members = next(
        list(one["members"]) for one in groups
        if len({member.get("reward") for member in one["members"].values()} - {None}) > 1
    )  # fmt: skip
    before = (root / "first" / "journal.db").read_bytes()
    scores = {one: watching.client.get(f"/api/episodes/{one}").json()["score"] or 0.0 for one in members}
    *_, best = worst = sorted(members, key=lambda one: scores[one])
    for episode_id, label in ((worst[0], "good"), (best, "bad")):
        given = {"label": label, "text": "<img src=x onerror=alert(1)>", "author": "Ada"}
        answer = watching.client.post(f"/api/episodes/{episode_id}/notes", json=given)
        assert answer.status_code == 201, answer.text
    (note,) = watching.client.get(f"/api/episodes/{worst[0]}/notes").json()["notes"]
    assert (note["label"], note["turn"], note["author"]) == ("good", None, "Ada")
    notes, out = data / "notes.ndjson", tmp_path / "pairs.jsonl"
    asked = ["rollouts", "export", str(root / "first"), "--format", "preferences", "--notes", str(notes)]
    result = spectator(*asked, "--out", out)
    assert result.exit_code == 0, result.output
    pairs = [json.loads(line) for line in out.read_text().splitlines()]
    assert pairs
    assert {(one["chosen_episode_id"], one["rejected_episode_id"]) for one in pairs} == {(worst[0], best)}
    assert (root / "first" / "journal.db").read_bytes() == before
    taken = watching.client.request("DELETE", f"/api/episodes/{worst[0]}/notes/{note['note_id']}", json={})
    assert taken.status_code == 200
    assert watching.client.get(f"/api/episodes/{worst[0]}/notes").json()["notes"] == []


def test_notes_are_the_owners_to_give(root: Path, tmp_path: Path) -> None:
    settings = test_settings(tmp_path, runs_dir=root, operator_token="operator-token-of-a-test")
    with serve(settings) as watching:
        member = next(iter(run_of(watching)["groups"]["g-000000"]["members"]))
        address = f"/api/episodes/{member}/notes"
        assert watching.client.post(address, json={"label": "good"}).status_code == 401
        token = {"Authorization": "Bearer operator-token-of-a-test"}
        assert watching.client.post(address, json={"label": "good"}, headers=token).status_code == 201
        wrong = watching.client.post(address, json={"label": "Very Good", "odd": 1}, headers=token)
        assert wrong.status_code == 422
        assert (
            watching.client.post("/api/episodes/ep-no/notes", json={"label": "a"}, headers=token).status_code
            == 404
        )
        gone = watching.client.request("DELETE", f"{address}/n-none", json={}, headers=token)
        assert (gone.status_code, gone.json()["errors"][0]["field"]) == (422, "note_id")
        assert watching.client.get(address).json()["unread"] == 0


def test_a_group_that_nobody_has_is_a_problem_in_words(watching: Serving) -> None:
    for params in ({}, {"run": "first"}, {"run": "none"}):
        answer = watching.client.get("/api/groups/g-none", params=params)
        assert answer.status_code == 404
        assert "group g-none not found" in answer.json()["detail"]


def test_a_run_is_live_while_it_is_played_elsewhere(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    settings = test_settings(tmp_path / "data", runs_dir=runs)
    with serve(settings) as watching, gated_run(runs / "live") as gate:
        with connect(f"{watching.ws_url}/live/rollouts/live") as socket:
            first = json.loads(socket.recv())
            assert (first["frame"], first["run"]["over"]) == ("run", 0)
            playing = next(iter(first["run"]["slowest"]))
            with connect(f"{watching.ws_url}/live/{playing}") as episode:
                hello, snapshot = json.loads(episode.recv()), json.loads(episode.recv())
                assert snapshot["state"]["episode"]["status"] == "live"
                gate.set()
                seqs, over = [hello["head_seq"]], False
                while not over:
                    frame = json.loads(episode.recv())
                    if frame["frame"] == "event":
                        seqs.append(frame["seq"])
                        over = frame["type"] == "episode.ended"
                assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            run, version = first["run"], first["version"]
            while run["over"] < 8:
                frame = json.loads(socket.recv())
                if frame["frame"] == "run.changed":
                    assert frame["version"] == version + 1
                    version, run = frame["version"], {**run, **frame["run"]}
        (entry,) = watching.client.get("/api/rollouts").json()["runs"]
        assert (entry["over"], entry["playing"]) == (8, 0)


def test_a_group_is_told_whole_and_then_what_changes(watching: Serving, root: Path) -> None:
    with RecordedRun(root / "forming", group_size=2, model="Tiny") as run:
        siblings = [TextEpisode("counting", {"turns": 2}, run=run) for _ in range(2)]
        for one in siblings:
            one.reset(seed=7)
    address = f"{watching.ws_url}/live/groups/g-000000?run=forming"
    for _ in range(2):  # the second comes while the first is let go
        with connect(address) as socket:
            first = json.loads(socket.recv())
            assert (first["frame"], first["group"]["run"], first["group"]["over"]) == ("group", "forming", 2)
            assert set(first["group"]["heads"]) >= set(first["group"]["members"])
            parent = next(iter(first["group"]["members"]))
            body = {"episode_id": parent, "seq": 2, "captain_preset": "heuristic", "pace": "max"}
            answer = watching.client.post("/custom/fork", json=body)
            assert answer.status_code == 202, answer.text
            fork, version, group = answer.json()["episode_id"], first["version"], first["group"]
            while group["branches"].get(fork, {}).get("standing") != "over":
                frame = json.loads(socket.recv(timeout=20))
                if frame["frame"] == "group.changed":
                    assert frame["version"] == version + 1
                    version, group = frame["version"], apply_patch(group, frame["group"])
    for wrong in ("g-none?run=forming", "g-none", "g-000000?run=none"):
        with pytest.raises(InvalidStatus):
            connect(f"{watching.ws_url}/live/groups/{wrong}")


def test_a_run_that_vanishes_keeps_what_was_read_and_says_so(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "first", tmp_path / "runs" / "gone")
    with serve(test_settings(tmp_path / "data", runs_dir=tmp_path / "runs")) as watching:
        with connect(f"{watching.ws_url}/live/rollouts/gone") as socket:
            assert "problem" not in json.loads(socket.recv())["run"]
            shutil.rmtree(tmp_path / "runs" / "gone")
            frame = json.loads(socket.recv())
            assert "moved" in frame["run"]["problem"]
        assert watching.client.get("/api/rollouts").json()["runs"] == []


def test_no_runs_are_watched_where_no_folder_is_named(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path)) as server:
        assert server.client.get("/api/rollouts").json() == {"runs": [], "watched": False}
        answer = server.client.get("/api/rollouts/first")
        assert answer.status_code == 404 and "SPECTATOR_RUNS_DIR" in answer.json()["detail"]


def test_a_public_server_offers_nobody_a_folder_of_its_operator() -> None:
    assert Settings.from_environ({"SPECTATOR_PROFILE": "public"}).runs_dir is None
    assert Settings.from_environ({"SPACE_ID": "a/b"}).runs_dir is None
    assert Settings.from_environ({}).runs_dir == Path("runs")
    assert Settings.from_environ({"SPECTATOR_RUNS_DIR": ""}).runs_dir is None
    chosen = Settings.from_environ({"SPECTATOR_PROFILE": "public", "SPECTATOR_RUNS_DIR": "mine"})
    assert chosen.runs_dir == Path("mine")
