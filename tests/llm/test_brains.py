"""The scripted brains read both prompts, in every form of asking, and keep to each constraint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.commands import spectator
from tests.llm.brains import BRAINS, Said
from tests.llm.endpoints import endpoint, write_captains

FORMS = {
    "tools": {"style": "tools"},
    "strict tools": {"style": "tools", "constraint": "tools"},
    "json": {"style": "json"},
    "json object": {"style": "json", "constraint": "json_object"},
    "json schema": {"style": "json", "constraint": "json_schema"},
    "json schema of an API": {"style": "json", "constraint": "json_schema", "provider": "openai"},
    "xml": {"style": "xml"},
}
WORLDS = {
    "cricket --option max_overs=1": "batsman",
    "cricket --option max_overs=2 --option decisions=over": "batsman",
    "counting --option turns=3": "counter",
    "collider": "physicist",
}


def keeps_to_its_constraint(said: Said, body: Mapping[str, Any]) -> None:
    if schema := body.get("response_format", {}).get("json_schema", {}).get("schema"):
        jsonschema.validate(json.loads(said.text), schema)
    strict = {
        tool["function"]["name"]: tool["function"]["parameters"]
        for tool in body.get("tools", ())
        if tool["function"].get("strict")
    }
    for name, arguments in said.calls if strict else ():
        jsonschema.validate(arguments, strict[name])


@pytest.mark.parametrize("prompt", ["full", "short"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_brain_decides_everything_itself(
    world: str, form: str, prompt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brain = BRAINS[WORLDS[world]]
    broken: list[Exception] = []

    def checked(body: Mapping[str, Any]) -> Said:
        try:
            said = brain(body)
            keeps_to_its_constraint(said, body)
        except Exception as error:  # would only close the connection
            broken.append(error)
            raise
        return said

    with endpoint(checked, chunk=64) as fake:
        table = {"base_url": fake.base_url, "prompt": prompt, "retries": 0, "timeout_s": 2, **FORMS[form]}
        path = write_captains(tmp_path / "captains.toml", scripted=table)
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(path))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-no-one")
        asked = ["play", *world.split(), "--captain", "llm:scripted", "--seed", "3"]
        done = spectator(*asked)
    assert not broken and done.exit_code == 0, (broken[:1], done.stderr)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    made = [event["data"] for event in events if event["type"] == "decision.made"]
    asked_for = [one for one in made if one["exchanges"]]
    assert {one["source"] for one in asked_for} == {"model"} and len(asked_for) == len(fake.received) >= 3
    assert "action.refused" not in {event["type"] for event in events}
