"""Prompts as token ids: a prompt of many turns is exactly the tokens that were sampled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from spectator.errors import RunHalted
from tests.commands import spectator
from tests.llm.brains import Said, counter, read_situation
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode, serving
from tests.llm.token_engine import END, NEW_LINE, TokenEngine, tokens_of
from tests.rollouts.test_fleet import request
from tests.rollouts.test_group_stream import in_a_loop, loop_over

TURNS = 4


def asking(fake: Any, **changes: Any) -> Any:
    fields = {"episodes": 1, "group_size": 1, "token_in": True, "model": {"tokens": True, "style": "json"}}
    return request(fake, **{**fields, **changes})


@in_a_loop
async def test_each_prompt_begins_with_the_tokens_of_the_last_prompt_and_its_answer(tmp_path: Path) -> None:
    engine = TokenEngine(counter)
    async with serving(counter, engine=engine) as fake:
        async with loop_over(asking(fake), tmp_path) as loop:
            group = await anext(loop)
            (row,) = [row async for row in group.tokens()]
            calls = [one.call async for one in group.journal.calls(group.episodes[0].summary.episode_id)]
    assert len(engine.prompts) == TURNS and group.rewards == [1.0]
    for before, sampled, after in zip(engine.prompts, engine.sampled, engine.prompts[1:], strict=False):
        assert after[: len(before) + len(sampled) + 1] == [*before, *sampled, NEW_LINE]
    assert row["joins"] == ["first", "clean", "clean", "clean"]
    assert row["token_ids"] == [*engine.prompts[-1], *engine.sampled[-1]]
    trained = [token for token, mask in zip(row["token_ids"], row["loss_mask"], strict=True) if mask]
    assert trained == [token for of_call in engine.sampled for token in of_call]
    assert [one for one in row["logprobs"] if one is not None] == [-0.5] * len(trained)
    assert [list(call.prompt_token_ids or ()) for call in calls] == engine.prompts
    assert calls[0].messages[0]["role"] == "system", "the words are recorded too"
    assert not [one for one in fake.received if one.path.endswith("/chat/completions")]


@in_a_loop
async def test_without_it_the_same_answers_are_tokenised_again(tmp_path: Path) -> None:
    """What the test above would show of an engine that gets messages."""
    engine = TokenEngine(counter)
    async with serving(counter, engine=engine) as fake:
        await anext(aiter(loop_over(asking(fake), tmp_path)))
    assert tokens_of([{"role": "assistant", "content": "ab"}], False)[1:3] != engine.sampled[0][:2]


@in_a_loop
async def test_an_answer_that_was_asked_for_again_stays_in_the_prompt(tmp_path: Path) -> None:
    def wavering(body: Mapping[str, Any]) -> Said:
        odd = read_situation(body)["next"] % 2
        return counter(body) if odd or body["messages"][-2]["content"] == "hm" else Said(text="hm")

    engine = TokenEngine(wavering)
    async with serving(wavering, engine=engine) as fake:
        async with loop_over(asking(fake), tmp_path) as loop:
            group = await anext(loop)
    assert group.rewards == [1.0] and group.refused_share == 2 / 6
    mumbled = [place for place, ids in enumerate(engine.sampled) if len(ids) == 3]
    assert len(mumbled) == 2
    for place in mumbled:
        stated = engine.prompts[place] + engine.sampled[place]
        assert engine.prompts[place + 1][: len(stated)] == stated


@in_a_loop
async def test_a_conversation_that_begins_again_is_tokenised_whole(tmp_path: Path) -> None:
    engine = TokenEngine(counter)
    async with serving(counter, engine=engine) as fake:
        model = {"tokens": True, "style": "json", "history_tokens": 256}
        async with loop_over(asking(fake, options={"turns": 30}, model=model), tmp_path) as loop:
            group = await anext(loop)
            rows = [row async for row in group.tokens()]
    assert group.rewards == [1.0] and 1 < len(rows) < 30
    assert {join for row in rows for join in row["joins"]} == {"first", "clean", "forked"}
    assert sum(sum(row["loss_mask"]) for row in rows) == sum(map(len, engine.sampled)), "none is lost"


@pytest.mark.parametrize(
    ("engine", "modes", "sentence"),
    [
        (None, [Mode.UNKNOWN], r"has no /tokenize for conversations.*use vLLM, or turn token_in off"),
        (None, [Mode.OK], r"has no /tokenize for conversations.*use vLLM, or turn token_in off"),
        (TokenEngine(counter, gives_ids=False), [Mode.OK], r"gives no token ids for its answers.*use vLLM"),
        (TokenEngine(counter, shifted=1), [Mode.OK], r"used another prompt than the token ids"),
    ],
)
@in_a_loop
async def test_an_endpoint_that_does_not_offer_it_is_refused(
    tmp_path: Path, engine: TokenEngine | None, modes: list[Mode], sentence: str
) -> None:
    async with serving(counter, modes, engine=engine) as fake:
        with pytest.raises(RunHalted, match=sentence):
            async for _ in loop_over(asking(fake), tmp_path):
                raise AssertionError("nothing can be complete")


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        ({"style": "json"}, "set the model's tokens to true"),
        ({"tokens": True}, "as the endpoint reads no tools there; use json"),
        ({"tokens": True, "style": "json", "by_session": True}, "cannot be combined with by_session"),
    ],
)
def test_what_does_not_fit_is_refused(model: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        request("http://127.0.0.1:9/v1", token_in=True, model=model)


def test_the_command_sends_token_ids(tmp_path: Path) -> None:
    engine = TokenEngine(counter)
    with endpoint(counter, engine=engine) as fake:
        command = [
            "rollouts", "run", "--env", "counting", "--option", "turns=2", "--base-url", fake.base_url,
            "--model", "m", "--episodes", "2", "--startup-jitter", "0", "--out", str(tmp_path / "run"),
            "--token-in",
        ]  # fmt: skip
        refused = spectator(*command)
        assert refused.exit_code != 0 and "set the model's tokens to true" in refused.output
        done = spectator(*command, "--tokens", "--style", "json")
    assert done.exit_code == 0, done.output
    assert len(engine.prompts) == 4 and all(ids[-1] == END for ids in engine.sampled)
