"""What no model earned, in every export format: it is reported, never complete, and never credited.

The formats are those of the registry. What credits is found by the names of fields: a format that has others
fails :func:`test_what_the_model_earned_is_credited` until they are listed here.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import parquet

import spectator
from spectator.catalog import load_world
from spectator.cli import main
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.errors import ConfigurationError
from spectator.exports.formats import FORMATS, ExportFormat
from tests.llm.brains import Brain, Said, counter, read_situation, say
from tests.rollouts.exported_run import play_run

SIZE = 2
each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=lambda one: one.name)


class Hiding(CountingEnvironment):
    """Has something to hide, so that every format has rows of it."""

    def truth(self) -> Mapping[str, Any]:
        return {"hidden": "seven"}


class FailsToStart(Hiding):
    """Raises before the first decision."""

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Any:
        raise RuntimeError("the simulator did not start")


class FailsLater(Hiding):
    """Raises at its second step."""

    def step(self, action: Mapping[str, Any]) -> Any:
        if self._turn == 1:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


def lorem(body: Mapping[str, Any]) -> Said:
    return Said(text="lorem ipsum")


def first_or_second(first: Brain, second: Brain) -> Brain:
    """One brain for the first member that asks, the other for the others."""
    known: list[int] = []

    def brain(body: Mapping[str, Any]) -> Said:
        member = body["seed"] - read_situation(body)["next"]
        known.append(member)
        return (first if member == known[0] else second)(body)

    return brain


def seven_at_two(body: Mapping[str, Any]) -> Said:
    return say(body, "say", {"text": "ACTION: 7"}, "") if read_situation(body)["next"] == 2 else counter(body)


def gives_up_at_two(body: Mapping[str, Any]) -> Said:
    return lorem(body) if read_situation(body)["next"] == 2 else counter(body)


RUNS: Mapping[str, tuple[Brain, type[CountingEnvironment], str]] = {
    "all siblings failed": (counter, FailsLater, "mask"),
    "no decision": (counter, FailsToStart, "mask"),
    "own share 0, ended": (lorem, Hiding, "end"),
    "own share 0, masked": (lorem, Hiding, "mask"),
    "own share 0, finished by a fallback": (lorem, Hiding, "fallback"),
    "own share 1": (first_or_second(counter, seven_at_two), Hiding, "mask"),
    "one penalised": (first_or_second(counter, gives_up_at_two), Hiding, "penalize"),
    "one with a fallback": (first_or_second(counter, gives_up_at_two), Hiding, "fallback"),
}
"""Model, world and rule for invalid answers of each run: one group of two members."""

REPORTED: Mapping[str, str] = {
    "all siblings failed": "env_infra",
    "no decision": "env_infra",
    "own share 0, ended": "unparsable",
    "own share 0, masked": "unparsable",
    "own share 0, finished by a fallback": r"too_few_own_decisions|\"source\": \"fallback\"|own_share\": 0.0",
}
"""Runs in which no model earned anything, and what an export states of the reason."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {name: tmp_path_factory.mktemp("run") for name in RUNS}
    for name, (brain, environment, rule) in RUNS.items():

        def world(of: str, environment: type[CountingEnvironment] = environment) -> World:
            return replace(load_world(of), environment=environment)

        play_run(
            folders[name], brain=brain, load=world, episodes=SIZE, group_size=SIZE, attempts=1,
            on_invalid=rule, invalid_retries=0,
        )  # fmt: skip
    return folders


def place(form: ExportFormat, folder: Path) -> Path:
    """Where an export of the format can be written."""
    out = folder / ("out.parquet" if form.parquet else "out")
    if form.folder:
        out.mkdir()
    return out


def exported(form: ExportFormat, run: Path, folder: Path, *more: str) -> tuple[list[Any], str]:
    """Export the run; returns what was written, as JSON, and what the command reported."""
    out = place(form, folder)
    command = ["rollouts", "export", str(run), "--format", form.name, "--out", str(out), *more]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return written(out), done.stderr


def written(out: Path) -> list[Any]:
    if out.suffix == ".parquet":
        return [{**row, "data": json.loads(row["data"])} for row in parquet.read_table(out).to_pylist()]
    files = sorted(out.iterdir()) if out.is_dir() else [out]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def text_of(found: list[Any]) -> str:
    return json.dumps(found, default=str)


CREDIT = re.compile(
    r"reward|score|advantage|margin|penalty|trainable|mask$|completed_samples|terminated|^done$"
)
"""Names of the fields that credit an episode, or call it complete."""
OF_THE_WORLD = re.compile(r"^(rubric|episode_score|score|terminated)$")
"""Those that describe the world's own end; beside an own share of 0 they credit no model."""


def credits(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Find every field that credits a model: a number in a reward, even 0, or a mask or flag that is set."""
    if isinstance(value, Mapping):
        if "seq" in value and "type" in value:  # an event; the world pays for a step, whoever acted
            if value.get("own") and value["source"] == "fallback":
                yield "own", True
            value = {} if value["type"] == "step.taken" else {"data": value["data"]}
        own = value.get("own_share", (value.get("own_decisions") or {}).get("own"))
        for key, held in value.items():
            if key == "rubric" or (own == 0 and OF_THE_WORLD.search(key)):
                continue
            yield from credits(held, key if not CREDIT.search(name) or CREDIT.search(key) else name)
    elif isinstance(value, list):
        for one in value:
            yield from credits(one, name)
    elif name == "state" and value == "complete":
        yield name, value
    elif CREDIT.search(name) and isinstance(value, bool | int | float):
        flag = isinstance(value, bool) or name.endswith(("mask", "completed_samples"))
        if value or not flag:
            yield name, value


@each_format
@pytest.mark.parametrize("name", REPORTED)
def test_what_no_model_earned_is_reported_and_credited_nowhere(
    runs: dict[str, Path], tmp_path: Path, form: ExportFormat, name: str
) -> None:
    found, said = exported(form, runs[name], tmp_path)
    assert list(credits(found)) == []
    if form.name == "truth":
        assert (len(found), "omitted: 2" in said) in {(2, False), (0, True)}, "it holds nothing else"
        return
    reported = re.search(REPORTED[name], text_of(found)) is not None
    assert reported or "no rows written" in said or f"omitted: {SIZE} episodes" in said


@each_format
def test_what_the_model_earned_is_credited(runs: dict[str, Path], tmp_path: Path, form: ExportFormat) -> None:
    """Else the check above would find nothing to object to."""
    found, _ = exported(form, runs["own share 1"], tmp_path, "--min-own-share", "1")
    named = {key for key, _ in credits(found)}
    assert named if form.name != "truth" else found
    if form.name == "groups":
        assert "state" in named


@each_format
def test_a_penalised_answer_is_in_every_format(
    runs: dict[str, Path], tmp_path: Path, form: ExportFormat
) -> None:
    """Traces and evaluation logs failed on it."""
    found, said = exported(form, runs["one penalised"], tmp_path)
    assert found and ("omitted" not in said or form.name == "truth")
    if form.name not in ("tokens", "truth"):
        assert "lorem ipsum" in text_of(found)
    if form.name == "traces":
        sessions = {one["id"]: one for one in found if one["type"] == "session"}
        assert sorted((one["reward"], one["penalised"]) for one in sessions.values()) == [
            (0.0, True), (1.0, False),
        ]  # fmt: skip
        (answer,) = [one for one in found if one.get("message", {}).get("content") == "lorem ipsum"]
        assert (answer["turn"], answer["reward"]) == (2, 0.0)
    if form.name == "episode-record":
        (penalised,) = [one for one in found if one["metrics"]["penalised"]]
        assert [one["result"]["metadata"]["source"] for one in penalised["tool_trace"]] == ["model", None]


@each_format
def test_python_omits_what_the_command_omits_for_its_own_share(
    runs: dict[str, Path], tmp_path: Path, form: ExportFormat
) -> None:
    run, own, mixed = runs["one with a fallback"], set[str](), set[str]()
    for name, kept in (("0.5", own), ("1", mixed)):
        for folder in (by_command := tmp_path / name, by_python := tmp_path / f"python {name}"):
            folder.mkdir()
        found, said = exported(form, run, by_command, "--min-own-share", name)
        kept.update(re.findall(r"ep-[0-9A-Z]{26}", text_of(found)))
        out = place(form, by_python)
        asyncio.run(spectator.export(run, out, form=form.name, min_own_share=float(name)))
        assert written(out) == found
        if form.name != "groups":
            assert ("omitted: 1 episode with too small a share" in said) == (name == "1")
        elif name == "1":
            (group,) = found
            assert (group["state"], group["failures"]) == ("partial", {"too_few_own_decisions": 1})
    if form.name != "preferences":  # those have equal rewards
        assert len(own) == SIZE and len(mixed) == 1 and mixed < own


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_is_between_0_and_1(runs: dict[str, Path], tmp_path: Path, share: float) -> None:
    with pytest.raises(ConfigurationError, match=r"min_own_share: .* is not between 0 and 1"):
        asyncio.run(spectator.export(runs["own share 1"], tmp_path / "out", min_own_share=share))
    assert list(tmp_path.iterdir()) == []
