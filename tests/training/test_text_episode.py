"""An episode in text as chat endpoints take it, and the package root where verifiers looks for it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

import spectator
from spectator.episodes.single_agent import NoEpisode
from spectator.training.text_episode import TextEpisode


def test_tools_are_functions_with_a_description_beside_their_parameters() -> None:
    episode = TextEpisode("cricket", {"max_overs": 1, "decisions": "over"})
    with pytest.raises(NoEpisode):
        _ = episode.functions
    episode.reset(seed=3)
    functions = {one["function"]["name"]: one["function"] for one in episode.functions}
    assert "bowl_over" in functions
    assert "bowl_delivery" not in functions
    assert all(one["type"] == "function" for one in episode.functions)
    for one in functions.values():
        assert one["description"]
        assert one["parameters"]["type"] == "object"
        assert "description" not in one["parameters"]
        assert not {"reason"} & set(one["parameters"]["properties"])


@pytest.mark.usefixtures("real_starts")
def test_the_root_offers_no_more_than_there_is_and_loads_nothing() -> None:
    assert find_spec("verifiers") is None, "it is not to be among what the tests need"
    assert spectator.__all__ == ["__version__", "export", "play", "rollout_groups", "run_rollouts", "watch"]
    with pytest.raises(AttributeError, match="no attribute 'WorldEnvy'"):
        _ = spectator.WorldEnvy
    with pytest.raises(ModuleNotFoundError, match="verifiers"):
        _ = spectator.WorldEnv
    script = "import sys\nfrom spectator import __version__\n"
    script += "print(__version__, [name for name in sys.modules if name.startswith('spectator')])"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == f"{spectator.__version__} ['spectator']"
