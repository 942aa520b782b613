"""The catalogue: what ships, what a user adds, what is missing here, and that no key is ever shown."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spectator.errors import ConfigurationError
from spectator.policies.captains import MASKED, NOT_SENT, ModelCaptain, load_captains, parse_captains
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import ModelSeat, model_presets
from spectator.policies.policy import Preset, RandomPolicy
from spectator.policies.prompts import Briefing
from tests.fakes import FakePolicy, ManualClock, counted

CANARY = "sk-canary-4711-do-not-print"
SEAT = ModelSeat(Briefing("A game."), RandomPolicy)
MINE = """
[captains.mine]
label = "Mine"
base_url = "https://example.org/v1"
model = "m-1"
api_key_env = "MY_KEY"
style = "json"
temperature = 0.2
max_tokens = 300
timeout_s = 20
price_in = 0.15
price_out = 0.6

[captains.openai]
label = "Another"
base_url = "http://127.0.0.1:9000/v1"
model = "m-2"
"""


def presets(captains: Mapping[str, ModelCaptain], variables: Mapping[str, str]) -> dict[str, Preset]:
    return model_presets(captains, SEAT, variables=variables, clock=ManualClock(), rng=random.Random(1))


def test_the_usual_endpoints_ship() -> None:
    captains = load_captains()
    assert {"llm:hf", "llm:openai", "llm:ollama", "llm:vllm", "llm:sglang"} <= captains.keys()
    assert all("127.0.0.1" in c.base_url or c.api_key_env for c in captains.values())
    assert all(c.base_url.startswith("https://") or c.api_key_env is None for c in captains.values())
    assert {c.style for c in captains.values()} == {"tools", "json", "xml"}


def test_the_users_file_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "captains.toml"
    path.write_text(MINE)
    captains = load_captains(path)
    assert captains["llm:mine"].settings().max_tokens == 300
    assert captains["llm:openai"].label == "Another"
    assert "llm:hf" in captains


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("captains = 7\n[", "is not TOML"),
        ("[servers.x]\na = 1", "servers: unknown; use tables [captains.NAME]"),
        ('[captains."a b"]\nlabel = "x"', "invalid name; use 1 to 48"),
        ("[captains.x]\n", "captains.x.label: Field required"),
        (
            '[captains.x]\nlabel="x"\nmodel="m"\nbase_url="ftp://x"',
            "captains.x.base_url: base_url must look like",
        ),
        ('[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://u:p@h/v1"', "must not contain a password"),
        (
            '[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\ntemperature=9',
            "captains.x.temperature",
        ),
        ('[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\nstyle="prose"', "captains.x.style"),
        ('[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\nmax_token=9', "captains.x.max_token"),
        ('[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\nprice_in=nan', "captains.x.price_in"),
        (
            '[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\napi_key_env="a-b"',
            "captains.x.api_key_env",
        ),
        (
            '[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\n[captains.x.extra]\nmodel="y"',
            "cannot be set in extra",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_field_and_rule(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_captains(text, "mine.toml")
    assert "mine.toml" in str(refused.value)
    assert words in str(refused.value)


SOUND = '[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\n'
SECRET = "hf_SECRETsecretSECRETsecretSECRETse"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("captains = 7", "mine.toml: captains: must be tables [captains.NAME]"),
        ("[captains]\nx = 7", "captains.x: must be a table [captains.x]"),
        ('[[captains.x]]\nlabel="x"', "captains.x: must be a table [captains.x]"),
        (
            f'{SOUND}api_key="{SECRET}"',
            "captains.x.api_key: unknown field; put the key into an environment variable",
        ),
        (f"{SOUND}max_token=9", "captains.x.max_token: unknown field; did you mean max_tokens?"),
        (f"{SOUND}colour=9", "captains.x.colour: unknown field; known: label, summary"),
        (
            f'{SOUND}api_key_env="{SECRET}"',
            "captains.x.api_key_env: must be the name of an environment variable",
        ),
        (
            f'{SOUND}api_key_env="sk-{SECRET}"',
            "captains.x.api_key_env: must be the name of an environment variable",
        ),
        (f"{SOUND}context_tokens=1024", "captains.x: context_tokens (1024) includes prompt and answer"),
        (f'{SOUND}style="json"\ntool_choice="auto"', "captains.x: tool_choice needs the style 'tools'"),
        (SOUND.replace("/v1", "/v1/chat/completions"), "captains.x.base_url: base_url must end before"),
        (
            SOUND.replace("//h/", f"//h:{SECRET}@h/"),
            "captains.x.base_url: base_url must not contain a password",
        ),
        (SOUND.replace("/v1", f"/v1?key={SECRET}"), "captains.x.base_url: base_url must not contain a query"),
    ],
)
def test_what_people_write_by_mistake_is_told_with_what_would_be_right_and_no_secret(
    text: str, words: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_captains(text, "mine.toml")
    assert words in str(refused.value) and SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "MY_KEY_2", "openai_key", "OPENAI_API_KEY_FOR_THE_EVALUATION_2026"]
)
def test_names_of_variables_do_not_pass_for_keys(name: str) -> None:
    assert parse_captains(f'{SOUND}api_key_env="{name}"', "f")["llm:x"].api_key_env == name


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_captains('[captains.x]\nlabel=""\nmodel=""\nbase_url="https://h/v1"\nmax_tokens=1', "f")
    assert all(f"captains.x.{name}" in str(refused.value) for name in ("label", "model", "max_tokens"))


def test_a_key_put_into_the_file_by_mistake_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_captains(
            f'[captains.x]\nlabel="x"\nmodel="m"\nbase_url="https://h/v1"\napi_key="{CANARY}"', "f"
        )
    assert "captains.x.api_key" in str(refused.value)
    assert CANARY not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load_captains(path)
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_captains(tmp_path / "latin.toml")


def test_each_preset_says_what_it_lacks() -> None:
    captains = parse_captains(MINE, "f")
    without, empty, bad, good = (
        presets(captains, variables)["llm:mine"]
        for variables in ({}, {"MY_KEY": ""}, {"MY_KEY": "two words"}, {"MY_KEY": CANARY})
    )
    assert without.missing == empty.missing == "needs a key in the variable MY_KEY"
    assert bad.missing == "needs a valid key in the variable MY_KEY: printable ASCII without spaces"
    assert good.missing is None
    assert presets(captains, {})["llm:openai"].missing is None
    for preset in (without, good):
        assert (preset.source, preset.costs_money, preset.label) == ("model", True, "Mine")


async def test_nothing_that_holds_the_key_shows_it() -> None:
    variables = {"MY_KEY": CANARY}
    preset = presets(parse_captains(MINE, "f"), variables)["llm:mine"]

    policy = preset.build(7)
    assert isinstance(policy, ModelPolicy)
    await policy.aclose()
    seen: list[Any] = [preset, policy]
    shown = ""
    for thing in seen:
        shown += repr(thing)
        for inner in getattr(thing, "__dict__", {}).values():
            shown += repr(inner)
            for deeper in getattr(inner, "__dict__", {}).values():
                shown += repr(deeper)
    assert CANARY not in shown
    assert "ApiKey(...)" in shown


def test_a_key_that_vanished_is_an_error_when_the_policy_is_built() -> None:
    preset = presets(parse_captains(MINE, "f"), {})["llm:mine"]
    with pytest.raises(ConfigurationError, match="MY_KEY"):
        preset.build(1)


def test_a_fallback_that_would_have_to_be_waited_for_is_refused() -> None:
    seat = ModelSeat(Briefing("A game."), lambda seed: FakePolicy(counted))
    found = model_presets(
        parse_captains(MINE, "f"), seat, variables={}, clock=ManualClock(), rng=random.Random(1)
    )
    preset = found["llm:openai"]
    with pytest.raises(ConfigurationError, match="scripted"):
        preset.build(1)


def test_no_session_is_used_twice_even_with_the_same_seed() -> None:
    table = '[captains.x]\nlabel = "x"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\nby_session = true\n'
    preset = presets(parse_captains(table, "f"), {})["llm:x"]
    policies = [preset.build(7) for _ in range(20)]
    sessions = {vars(policy)["_session"] for policy in policies}
    assert len(sessions) == 20 and None not in sessions


def test_settings_are_recorded_without_secrets_and_without_what_is_not_sent() -> None:
    extra = {
        "user": "ops-4711",
        "headers": {"Authorization": "Bearer x", "list_of_key": ["a", {"deep": "b"}]},
        "note": "sk_abcdefghijklmnopqrstuvwxyz",
        "max_token": 5,
        "provider": {"order": ["fast", "slow"]},
    }
    table = {"label": "L", "base_url": "https://example.org/v1", "model": "m", "extra": extra}
    captain = ModelCaptain.model_validate(
        table | {"api_key_env": "MY_KEY", "price_in": 1.0, "temperature": 0.5}
    )
    recorded = captain.settings().recorded
    assert recorded == {
        "model": "m",
        "temperature": 0.5,
        "extra": {
            "user": MASKED,
            "headers": {"Authorization": MASKED, "list_of_key": [MASKED, {"deep": MASKED}]},
            "note": MASKED,
            "max_token": 5,
            "provider": {"order": ["fast", "slow"]},
        },
    }
    assert captain.sent().keys() == ModelCaptain.model_fields.keys() - NOT_SENT
    assert captain.settings().extra == extra
