"""JSON-RPC on ``/mcp``: errors with status 200, legal actions as tools, sessions that cannot leak."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from websockets.sync.client import connect

from tests.openenv.conftest import PATIENCE_S, Client, open_client
from tests.serving import Serving

Start = Callable[..., Serving]


def rpc(serving: Serving, method: str, params: Any = None, *, session: str | None = None) -> httpx.Response:
    """Ask for something."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 5, "method": method}
    if params is not None:
        body["params"] = params
    return serving.client.post(
        "/mcp", json=body, headers={} if session is None else {"Mcp-Session-Id": session}
    )


def result(answer: httpx.Response) -> Any:
    body = answer.json()
    assert (answer.status_code, body["jsonrpc"], body["id"]) == (200, "2.0", 5), body
    return body["result"]


def error(answer: httpx.Response) -> Any:
    body = answer.json()
    assert (answer.status_code, body["jsonrpc"]) == (200, "2.0"), body
    return body["error"]


def names(answer: httpx.Response) -> list[str]:
    """Names of the tools that are listed."""
    return [one["name"] for one in result(answer)["tools"]]


def say(number: int) -> dict[str, Any]:
    return {"name": "say", "arguments": {"text": f"ACTION: {number}"}}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
        (b"{}", -32600),
        (b"[]", -32600),
        (b"null", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"reset"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":[]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"session_id":"nope"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"session_id":1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"openenv/session/close"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"openenv/session/create","params":{"seed":-1}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"openenv/session/create","params":{"bogus":1}}', -32602),
    ],
)
def test_what_is_wrong_is_an_error_of_json_rpc(shared: Serving, content: bytes, code: int) -> None:
    answer = shared.client.post("/mcp", content=content, headers={"Content-Type": "application/json"})
    assert error(answer)["code"] == code
    assert "message" in error(answer)


def test_the_id_comes_back_even_with_an_error(shared: Serving) -> None:
    for call_id in (0, "a", 1.5, None):
        answer = shared.client.post("/mcp", json={"jsonrpc": "2.0", "id": call_id, "method": "nope"})
        assert answer.json()["id"] == call_id


def test_a_notification_is_accepted_without_an_answer(shared: Serving) -> None:
    answer = shared.client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.parametrize(
    ("asked", "spoken"), [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")]
)
def test_initialize_agrees_on_a_version_and_keeps_a_session(shared: Serving, asked: Any, spoken: str) -> None:
    answer = rpc(shared, "initialize", {"protocolVersion": asked})
    told = result(answer)
    assert told["protocolVersion"] == spoken
    assert told["serverInfo"]["name"] == "counting"
    assert told["capabilities"] == {"tools": {"listChanged": False}}
    session = answer.headers["mcp-session-id"]
    assert result(rpc(shared, "ping", session=session)) == {}
    assert shared.client.delete("/mcp", headers={"Mcp-Session-Id": session}).status_code == 204


def test_a_session_plays_an_episode(shared: Serving) -> None:
    session = result(rpc(shared, "openenv/session/create", {"seed": 3, "turns": 2}))["session_id"]
    steps = [result(rpc(shared, "tools/call", {**say(n), "session_id": session})) for n in (1, 7)]
    assert [step["structuredContent"]["observation"]["turn"] for step in steps] == [1, 2]
    assert steps[-1]["structuredContent"]["done"] is True
    assert json.loads(steps[-1]["content"][0]["text"]) == steps[-1]["structuredContent"]
    late = result(rpc(shared, "tools/call", {**say(3), "session_id": session}))
    assert late["structuredContent"]["observation"]["refused"]["rule"] == "episode.over"
    assert names(rpc(shared, "tools/list", {"session_id": session})) == ["start_episode", "say"]
    assert result(rpc(shared, "openenv/session/close", {"session_id": session}))["closed"] is True
    assert error(rpc(shared, "tools/list", {"session_id": session}))["code"] == -32602


def test_a_refusal_is_told_as_the_tools_error(shared: Serving) -> None:
    told = result(rpc(shared, "tools/call", {"name": "say", "arguments": {"text": "nothing"}}))
    assert told["isError"] is True
    assert told["structuredContent"]["observation"]["refused"]["rule"] == "action.text"


def test_tools_of_a_world_that_names_them(shared: Serving) -> None:
    with connect(f"{shared.ws_url}/envs/cricket/mcp", legacy=True) as plain:
        client = Client(plain)

        def ask(method: str, params: Any = None) -> Any:
            answer = client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            return answer["result"]

        assert ask("initialize")["serverInfo"]["name"] == "cricket"
        tools = ask("tools/list")["tools"]
        assert all(tool["inputSchema"]["type"] == "object" and tool["name"] for tool in tools)
        assert "call_toss" in [tool["name"] for tool in tools]
        assert ask("tools/call", {"name": "bowl_delivery"})["isError"] is True
        assert ask("tools/call", {"name": "call_toss"})["isError"] is False
        assert client.send("{")["error"]["code"] == -32700


def test_without_a_session_every_call_has_an_episode_of_its_own(shared: Serving) -> None:
    for _ in range(3):
        step = result(rpc(shared, "tools/call", say(1)))
        assert step["structuredContent"]["observation"]["turn"] == 1


def test_a_session_that_is_gone_is_not_found(shared: Serving) -> None:
    answer = rpc(shared, "tools/list", session="gone")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == -32600
    assert shared.client.delete("/mcp", headers={"Mcp-Session-Id": "gone"}).status_code == 404
    assert shared.client.delete("/mcp").status_code == 404


def test_a_session_belongs_to_its_world(shared: Serving) -> None:
    session = result(rpc(shared, "openenv/session/create"))["session_id"]
    body = {"jsonrpc": "2.0", "id": 5, "method": "tools/list"}
    answer = shared.client.post("/envs/cricket/mcp", json=body, headers={"Mcp-Session-Id": session})
    assert answer.status_code == 404
    shared.client.delete("/mcp", headers={"Mcp-Session-Id": session})


def test_the_socket_speaks_it_about_its_own_environment(client: Client) -> None:
    client.ask("reset", {"turns": 5})
    told = client.ask("mcp", {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": say(1)})
    assert told["result"]["structuredContent"]["observation"]["turn"] == 1
    assert client.ask("state")["step_count"] == 1
    assert client.ask("mcp", {})["error"]["code"] == -32600
    assert client.ask("mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})["id"] is None


# Sessions cannot leak


def test_sessions_leave_room_for_sockets(start: Start) -> None:
    serving = start(openenv_max_sessions=4)
    created = [rpc(serving, "openenv/session/create").json() for _ in range(4)]
    assert ["result" in answer for answer in created] == [True, True, False, False]
    assert created[-1]["error"]["code"] == -32000
    assert created[-1]["error"]["data"] == {"active_sessions": 2, "max_sessions": 4}
    assert rpc(serving, "initialize").json()["error"]["code"] == -32000
    one, two = open_client(serving), open_client(serving)
    one.ask("reset")
    two.ask("reset")
    assert error(rpc(serving, "tools/list"))["code"] == -32000
    one.socket.close()
    two.socket.close()


def test_a_failed_creation_holds_no_slot(start: Start) -> None:
    serving = start(openenv_max_sessions=2)
    for _ in range(5):
        assert error(rpc(serving, "openenv/session/create", {"turns": 0}))["code"] == -32602
    assert "session_id" in result(rpc(serving, "openenv/session/create"))


@pytest.mark.parametrize("over", ["http", "socket"])
def test_initialize_begins_an_episode_with_a_seed_and_options(shared: Serving, over: str) -> None:
    asked = {"protocolVersion": "2025-06-18", "_meta": {"spectator/episode": {"seed": 7, "turns": 1}}}
    use = {"name": "say", "arguments": {"text": "ACTION: 1"}}
    if over == "http":
        begun = rpc(shared, "initialize", asked)
        assert result(begun)["serverInfo"]["name"] == "counting"
        told = result(rpc(shared, "tools/call", use, session=begun.headers["mcp-session-id"]))
    else:
        with connect(f"{shared.ws_url}/mcp", legacy=True) as plain:
            client = Client(plain)
            call = {"jsonrpc": "2.0", "id": 1}
            begun = client.send({**call, "method": "initialize", "params": asked})
            assert begun["result"]["serverInfo"]["name"] == "counting"
            told = client.send({**call, "method": "tools/call", "params": use})["result"]
    assert told["structuredContent"]["done"], "the option was not taken"


@pytest.mark.parametrize("episode", [{"turns": 0}, {"seed": -1}, [7], {"nonsense": 1}])
def test_initialize_with_a_wrong_episode_is_refused_and_keeps_nothing(start: Start, episode: Any) -> None:
    serving = start(openenv_max_sessions=2)
    for _ in range(3):
        told = error(rpc(serving, "initialize", {"_meta": {"spectator/episode": episode}}))
        assert told["code"] == -32602
    assert "mcp-session-id" in rpc(serving, "initialize").headers


def test_a_silent_session_is_let_go(start: Start) -> None:
    serving = start(openenv_max_sessions=1, openenv_session_idle_s=0.2)
    session = result(rpc(serving, "openenv/session/create"))["session_id"]
    deadline = time.monotonic() + PATIENCE_S
    while "error" in (answer := rpc(serving, "openenv/session/create").json()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.02)
    gone = rpc(serving, "tools/list", session=session)
    assert gone.status_code == 404
    assert "expired" in gone.json()["error"]["message"]
    assert "unknown session" in rpc(serving, "tools/list", session="never").json()["error"]["message"]


# Tools: all of them always, and one that begins an episode


@pytest.mark.parametrize(("world", "some"), [("cricket", "bowl_over"), ("collider", "unblind")])
def test_all_tools_are_listed_before_during_and_after_an_episode(
    shared: Serving, world: str, some: str
) -> None:
    with connect(f"{shared.ws_url}/envs/{world}/mcp", legacy=True) as plain:
        client = Client(plain)

        def tools() -> dict[str, Any]:
            listed = client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]
            return {one["name"]: one for one in listed}

        before = tools()
        assert some in before
        assert "start_episode" in before
        begun = call(client, "start_episode", {"seed": 5})
        assert begun["structuredContent"]["observation"]["metadata"]["seed"] == 5
        assert set(tools()) == set(before)
        for one in before.values():
            assert one["description"], one["name"]
            Draft202012Validator.check_schema(one["inputSchema"])
        refused = call(client, some, {})
        assert refused["isError"] is True
        assert refused["structuredContent"]["observation"]["refused"]["rule"]


def call(client: Client, name: str, arguments: Any) -> Any:
    """Use a tool by a socket."""
    params = {"name": name, "arguments": arguments}
    return client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})["result"]


def test_an_episode_begins_with_seed_options_and_a_view_of_it(shared: Serving) -> None:
    session = rpc(shared, "initialize").headers["mcp-session-id"]
    arguments = {"seed": 9, "turns": 2, "observe": "text", "episode_id": "mine"}
    begun = result(
        rpc(shared, "tools/call", {"name": "start_episode", "arguments": arguments}, session=session)
    )
    told = begun["content"][0]["text"]
    assert told == begun["structuredContent"]["observation"]["text"]
    assert told.startswith("You decide for 'counter'.")
    assert "next: 1" in told
    steps = [result(rpc(shared, "tools/call", say(n), session=session)) for n in (1, 2)]
    assert steps[0]["content"][0]["text"] == "Changed:\nturn: 1\nnext: 2"
    assert steps[-1]["structuredContent"]["reward"] == 1.0
    again = result(
        rpc(shared, "tools/call", {"name": "start_episode", "arguments": {"turns": 1}}, session=session)
    )
    assert again["structuredContent"]["done"] is False
    shared.client.delete("/mcp", headers={"Mcp-Session-Id": session})


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"seed": -1}, "seed"),
        ({"turns": 0}, "turns"),
        ({"nonsense": 1}, "nonsense"),
        ({"observe": "x"}, "observe"),
    ],
)
def test_an_episode_that_cannot_begin_is_an_error_that_names_the_field(
    shared: Serving, arguments: Any, word: str
) -> None:
    wrong = error(rpc(shared, "tools/call", {"name": "start_episode", "arguments": arguments}))
    assert wrong["code"] == -32602
    assert word in wrong["message"]


def test_the_instructions_hold_the_brief(shared: Serving) -> None:
    with connect(f"{shared.ws_url}/envs/cricket/mcp", legacy=True) as plain:
        told = Client(plain).send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}})["result"]
    brief = shared.client.get("/envs/cricket/metadata").json()["brief"]
    assert brief["task"] in told["instructions"]
    assert brief["legend"] in told["instructions"]
    assert "start_episode" in told["instructions"]
