"""Weights of one's own in the captains file: what can be wrong is said by field, and what to do."""

from __future__ import annotations

import asyncio
import json
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from spectator.cast import DEFAULT_LIVE, Cast
from spectator.environments.cricket import WORLD
from spectator.environments.cricket.trained.captain import CARD, FOLDER, WEIGHTS, card_of
from spectator.errors import ConfigurationError
from spectator.policies.policy import Decision, Preset
from tests.environments.cricket.playing import begin
from tests.fakes import ManualClock

TABLE = '[trained.{0}]\nlabel = "Own"\nworld = "{1}"\nweights = "weights"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weights").mkdir()
    for name in (WEIGHTS, CARD):
        shutil.copy(FOLDER / name, tmp_path / "weights" / name)
    return tmp_path


def cast(folder: Path, table: str = TABLE.format("own", "cricket")) -> Cast:
    (folder / "captains.toml").write_text(table)
    return Cast.from_file(
        folder / "captains.toml", live=DEFAULT_LIVE, variables={}, clock=ManualClock(), data_dir=folder
    )


def own(folder: Path) -> Preset:
    world = cast(folder).load("cricket")
    assert world.captains["own"] is world.opponents["own"]
    return world.captains["own"]


def write_weights(folder: Path, **arrays: np.ndarray) -> None:
    """Replace the weights, with a card that fits."""
    path, card = folder / "weights" / WEIGHTS, folder / "weights" / CARD
    np.savez(path, allow_pickle=False, **arrays)
    content = path.read_bytes()
    about = {**json.loads(card.read_text()), "sha256": sha256(content).hexdigest(), "size": len(content)}
    card.write_text(json.dumps(about))


def decided(preset: Preset) -> Decision:
    _, observation = begin(7, max_overs=1, decisions="over")
    return asyncio.run(preset.build(1).decide(observation, deadline=60.0))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE.format("own", "collider"), "trained.own.world: collider has no captains with weights"),
        (TABLE.format("own", "criket"), "trained.own.world: unknown 'criket'; did you mean 'cricket'?"),
        (TABLE.format("planner", "cricket"), "already has a captain 'planner'; use another"),
        (TABLE.format("self", "cricket"), "trained.self: cricket already has"),
        (TABLE.format("human", "cricket"), "trained.human: cricket already has"),
        (TABLE.format("own", "cricket") + "model = 1", "trained.own.model: unknown field"),
        ('[trained.own]\nlabel = "x"\nworld = "cricket"\nweights = ""', "own.weights: must name"),
        ("trained = 1", "trained: must be tables [trained.NAME]"),
        ("[trained.own]", "trained.own.weights: Field required"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_rejected_by_field(folder: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as wrong:
        cast(folder, table)
    assert said in str(wrong.value)


def test_it_is_in_its_world_alone_and_says_its_version(folder: Path) -> None:
    preset = own(folder)
    assert (preset.label, preset.source, preset.missing, preset.costs_money) == ("Own", "model", None, False)
    trained_on = card_of(folder / "weights")
    assert trained_on is not None
    assert (f"not {WORLD.version}" in preset.summary) == (trained_on.world != WORLD.version)
    assert "own" not in cast(folder).load("counting").captains


@pytest.mark.parametrize("content", [None, "{", "[]", '{"sha256": 1, "size": 1, "name": "", "world": ""}'])
def test_a_missing_or_wrong_card_is_said_with_its_field(folder: Path, content: str | None) -> None:
    card = folder / "weights" / CARD
    card.unlink() if content is None else card.write_text(content)
    said = own(folder).missing or ""
    assert "missing from the folder in trained.own.weights: correct the path, or make them again" in said


def test_damaged_weights_are_said_with_their_captain(folder: Path) -> None:
    weights = folder / "weights" / WEIGHTS
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"the captain 'own' has damaged weights \(their SHA-256"):
        own(folder).build(1)
    weights.write_bytes(content[:-1])
    assert "damaged" in (own(folder).missing or "")


def test_weights_that_were_replaced_need_a_restart(folder: Path) -> None:
    preset = own(folder)
    write_weights(folder, head=np.array("{}"))
    with pytest.raises(ConfigurationError, match="'own' were replaced after this process started; restart"):
        preset.build(1)


def test_weights_of_another_form_decide_nothing_and_say_so(folder: Path) -> None:
    write_weights(folder, head=np.array("{}"))
    decision = decided(own(folder))
    assert decision.source == "fallback"
    assert "not those of a cricket captain" in (decision.fallback_reason or "")


def test_weights_of_a_failed_training_decide_nothing_and_say_so(folder: Path) -> None:
    with np.load(FOLDER / WEIGHTS) as shipped:
        arrays = {name: shipped[name] for name in shipped.files}
    write_weights(folder, **{**arrays, "norm": np.full_like(arrays["norm"], np.nan)})
    decision = decided(own(folder))
    assert decision.source == "fallback"
    assert "not finite numbers" in (decision.fallback_reason or "")
