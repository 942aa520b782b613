"""The recipe of the trained captain without torch: its command, its teacher, its examples."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectator.cli import main
from spectator.environments.cricket.recipe.examples import Example, examples_of, load, save
from spectator.environments.cricket.trained.captain import FOLDER
from spectator.environments.cricket.trained.policy import network


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch_the_command_says_what_to_install(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["train", "cricket-captain", "--folder", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert "pip install 'openenv-spectator[train]'" in done.output
    assert not (tmp_path / "run").exists()


def examples() -> list[Example]:
    return examples_of(9, network(FOLDER).tokenizer)


def test_examples_are_the_same_each_time_and_survive_a_file(tmp_path: Path) -> None:
    made = examples()
    assert [one.ids for one in made] == [one.ids for one in examples()]
    save(made, tmp_path / "examples.npz")
    kept = list(load(tmp_path / "examples.npz"))
    assert [list(one.ids) for one in kept] == [one.ids for one in made]
    assert [[list(place) for place in one.allowed] for one in kept] == [one.allowed for one in made]
    assert [[bool(act) for act in one.acts] for one in kept] == [one.acts for one in made]


def test_every_choice_has_shares_that_add_up_and_the_best_is_taken() -> None:
    made = examples()
    assert len(made) > 10
    for one in made:
        for at, allowed, shares, acts in zip(one.at, one.allowed, one.shares, one.acts, strict=True):
            assert len(allowed) == len(shares) > 1
            assert sum(shares) == pytest.approx(1.0)
            assert one.ids[at] in allowed
            if acts:
                assert shares[allowed.index(one.ids[at])] == max(shares)
