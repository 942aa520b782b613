"""The contract over HTTP: fresh environments, schemas that hold, and refusals that name the field."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from server.openenv.worlds import encode_observation
from spectator.catalog import load_world
from spectator.episodes.single_agent import SingleAgent
from spectator.observations import Observation
from tests.gate import Gate
from tests.openenv.conftest import PATIENCE_S, open_client
from tests.serving import Serving

Start = Callable[..., Serving]
ROOTS = ["", "/envs/collider", "/envs/counting", "/envs/cricket"]


@pytest.mark.parametrize("root", ROOTS)
def test_every_root_speaks_the_whole_contract(shared: Serving, root: str) -> None:
    paths = shared.client.get(f"{root}/openapi.json").json()["paths"]
    assert {"/reset", "/step", "/state", "/schema", "/metadata", "/mcp", "/health"} <= set(paths)
    assert shared.client.get(f"{root}/health").json() == {"status": "healthy"}
    metadata = shared.client.get(f"{root}/metadata").json()
    assert metadata["name"] == (root.removeprefix("/envs/") or "counting")
    assert all(
        metadata[name] for name in ("description", "version", "readme_content", "author", "documentation_url")
    )
    begun = shared.client.post(f"{root}/reset", json={"seed": 7, "episode_id": "e"}).json()
    assert (begun["reward"], begun["done"], begun["metadata"]["seed"]) == (0.0, False, 7)
    assert shared.client.get(f"{root}/state").json()["step_count"] == 0


@pytest.mark.parametrize("root", ROOTS)
def test_every_reference_of_the_openapi_document_resolves(shared: Serving, root: str) -> None:
    document = shared.client.get(f"{root}/openapi.json").json()
    schemas = document["components"]["schemas"]
    found = references(document)
    assert {ref.removeprefix("#/components/schemas/") for ref in found} <= set(schemas)
    assert found


def test_a_step_is_that_of_a_fresh_episode(shared: Serving) -> None:
    for _ in range(2):
        step = shared.client.post(
            "/step", json={"action": {"text": "ACTION: 1"}, "reset": {"turns": 1}}
        ).json()
        assert (step["reward"], step["done"]) == (1.0, True)


def test_a_reset_without_a_body_draws_a_seed(shared: Serving) -> None:
    seeds = {shared.client.post("/reset").json()["metadata"]["seed"] for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("/reset", {"seed": -1}, ["seed"]),
        ("/reset", {"seed": "7"}, ["seed"]),
        ("/reset", {"bogus": 1, "turns": 0}, ["turns", "bogus"]),
        ("/reset", {"episode_id": "x" * 256}, ["episode_id"]),
        ("/reset", [1], ["body"]),
        ("/step", {}, ["action"]),
        ("/step", {"action": 1}, ["action"]),
        ("/step", {"action": {"text": "x"}, "more": 1}, ["more"]),
        ("/step", {"action": {"text": "x"}, "timeout_s": 0}, ["timeout_s"]),
        ("/step", {"action": {"text": "x"}, "reset": {"seed": -1}}, ["reset.seed"]),
        ("/step", {"action": {"text": "x"}, "reset": {"turns": 0, "no": 1}}, ["reset.turns", "reset.no"]),
    ],
)
def test_every_wrong_field_is_named(shared: Serving, path: str, body: Any, fields: list[str]) -> None:
    answer = shared.client.post(path, json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert [wrong["field"] for wrong in answer.json()["errors"]] == fields


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"seed":NaN}', "application/json", 400),
        (b"[" * 200_000, "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"x" * (1024 * 1024 + 1), "application/json", 413),
        (b'{"episode_id":"\\ud800"}', "application/json", 422),
        (b'{"x":' * 40 + b"1" + b"}" * 40, "application/json", 422),
    ],
)
@pytest.mark.parametrize("path", ["/reset", "/step"])
def test_what_is_no_json_is_refused(
    shared: Serving, path: str, content: bytes, kind: str, status: int
) -> None:
    answer = shared.client.post(path, content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/envs/nope/", "/envs/nope/reset", "/envs/nope/a/b"])
def test_an_unknown_world_is_a_problem_that_lists_those_there_are(
    shared: Serving, method: str, path: str
) -> None:
    answer = shared.client.request(method, path)
    assert answer.status_code == 404
    assert "counting" in answer.json()["detail"]


def test_the_worlds_are_listed_the_default_first(shared: Serving) -> None:
    names = shared.client.get("/envs").json()["environments"]
    assert names[0] == "counting"
    assert "cricket" in names
    for name in names:
        assert shared.client.get(f"/envs/{name}").json() == shared.client.get(f"/envs/{name}/metadata").json()
    assert shared.client.get("/envs/nope").status_code == 404


def test_a_page_of_another_site_may_not_post(shared: Serving) -> None:
    for path in ("/reset", "/step", "/mcp", "/envs/counting/reset"):
        answer = shared.client.post(path, json={}, headers={"Origin": "https://elsewhere.example"})
        assert answer.status_code == 403


def test_a_full_house_is_told_over_http_and_empties_again(start: Start, gate: Gate) -> None:
    serving = start(openenv_max_sessions=1)
    client = open_client(serving)
    client.ask("reset")
    answer = serving.client.post("/reset", json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["type"] == "/problems/too-many-environments"
    client.socket.close()
    deadline = time.monotonic() + PATIENCE_S
    while serving.client.post("/reset", json={}).status_code == 503:
        assert time.monotonic() < deadline
    assert all(serving.client.get("/state").status_code == 200 for _ in range(5))


@pytest.mark.parametrize(("world", "path"), [("unbuildable", "/state"), ("shy", "/state"), ("huge", "/step")])
def test_a_world_that_fails_is_our_fault_and_says_nothing_of_itself(
    start: Start, world: str, path: str
) -> None:
    serving = start(openenv_max_sessions=1)
    for _ in range(3):
        url, body = f"/envs/{world}{path}", {"action": {"text": "ACTION: 1"}}
        answer = serving.client.get(url) if path == "/state" else serving.client.post(url, json=body)
        assert answer.status_code == 500
        assert "secret" not in answer.text
    assert serving.client.get("/state").status_code == 200


def test_a_slow_constructor_and_a_step_that_hangs_do_not_block_health(start: Start, gate: Gate) -> None:
    serving = start(step_timeout_s=0.5)
    answers: list[httpx.Response] = []

    def post(url: str, body: dict[str, Any]) -> None:
        answers.append(httpx.post(serving.base_url + url, json=body, timeout=PATIENCE_S))

    step = {"action": {"text": "ACTION: 1"}}
    threads = [
        threading.Thread(target=post, args=("/envs/slow/reset", {})),
        threading.Thread(target=post, args=("/envs/hanging/step", step)),
    ]
    for thread in threads:
        thread.start()
    assert gate.reached.wait(PATIENCE_S)
    for _ in range(20):
        assert serving.client.get("/health").status_code == 200
    assert answers == [] or [one.status_code for one in answers] == [504], "the slow one still waits"
    threads[1].join(PATIENCE_S)
    gate.open()
    threads[0].join(PATIENCE_S)
    assert sorted(answer.status_code for answer in answers) == [200, 504]


def test_the_limit_of_a_step_can_be_lowered(start: Start, gate: Gate) -> None:
    body = {"action": {"text": "ACTION: 1"}, "timeout_s": 0.2}
    answer = start().client.post("/envs/hanging/step", json=body)
    assert answer.status_code == 504 and answer.json()["type"] == "/problems/step-timeout"


def test_next_to_no_time_for_a_step_is_answered_without_a_trace(
    shared: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"action": {"tool": "count", "arguments": {"amount": 1}}, "timeout_s": 1e-9}
    answer = shared.client.post("/envs/counting/step", json=body)
    assert answer.status_code == 504 and "within 1e-09 s" in answer.json()["detail"]
    assert not [record for record in caplog.records if record.exc_info or record.levelname == "ERROR"]


# Schemas


def shown(observation: Observation) -> Any:
    data = json.loads(encode_observation(observation, observation.to_json()))
    return {**data["observation"], "reward": data["reward"], "done": data["done"]}


@pytest.mark.parametrize(("world", "options"), [("counting", {"turns": 30}), ("cricket", {"max_overs": 5})])
@pytest.mark.parametrize("captain", ["heuristic", "random"])
def test_whole_episodes_keep_to_the_schemas(
    shared: Serving, world: str, options: dict[str, Any], captain: str
) -> None:
    schemas = shared.client.get(f"/envs/{world}/schema").json()
    assert set(schemas) == {"action", "observation", "state", "reset_observation"}
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
        assert all(ref.startswith("#") for ref in references(schema))
    action, observation, state, begun = (
        Draft202012Validator(schemas[name])
        for name in ("action", "observation", "state", "reset_observation")
    )
    policy: Any = load_world(world).captains[captain].build(5)
    agent = SingleAgent(world)
    seen = agent.reset(5, "e", options=options)
    begun.validate(shown(seen))
    for _ in range(5000):
        state.validate(json.loads(json.dumps(agent.state)))
        if seen.done:
            break
        sent = policy.choose(seen).action
        action.validate(json.loads(json.dumps(sent)))
        seen = agent.step(sent)
        observation.validate(shown(seen))
    assert seen.done
    observation.validate(shown(agent.step(sent)))


def test_an_action_has_exactly_one_required_field(shared: Serving) -> None:
    for root in ROOTS:
        assert len(shared.client.get(f"{root}/schema").json()["action"]["required"]) == 1


def test_a_schema_does_not_admit_everything(shared: Serving) -> None:
    observation = Draft202012Validator(shared.client.get("/schema").json()["observation"])
    data = shown(SingleAgent("counting").reset(1, "e"))
    assert observation.is_valid(data)
    for change in (
        {"reward": 1.5},
        {"reward": None},
        {"done": 1},
        {"secret": 1},
        {"turn": -1},
        {"turn": "1"},
    ):
        assert not observation.is_valid({**data, **change}), change


def references(schema: Any) -> list[str]:
    """Every reference in a schema."""
    if isinstance(schema, dict):
        own = [value for name, value in schema.items() if name in ("$ref", "$dynamicRef")]
        return own + [ref for value in schema.values() for ref in references(value)]
    return [ref for value in schema for ref in references(value)] if isinstance(schema, list) else []
