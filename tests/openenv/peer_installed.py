"""What `AutoEnv` makes of the installed wheel; runs where it is installed beside the official package.

peer_installed.py SERVER_URL
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import files
from typing import Any

from openenv import AutoAction, AutoEnv

import spectator


def played(url: str) -> dict[str, Any]:
    """A match, as far as its first decision, and an episode of another world to its end."""
    kind: Any = AutoAction.from_env("cricket")
    with AutoEnv.from_env("cricket", base_url=f"{url}/envs/cricket").sync() as env:
        begun = env.reset(seed=3, max_overs=1)
        legal = begun.observation["legal_actions"][0]["tool"]
        stepped = env.step(kind(tool=legal))
        malformed = env.step({"tool": 5})
    from spectator.client import CountingAction, CountingEnv

    with CountingEnv(base_url=f"{url}/envs/counting").sync() as env:
        env.reset(turns=1)
        counted = env.step(CountingAction(text="ACTION: 1"))
    return {
        "legal": legal,
        "stepped": stepped.observation["refused"],
        "malformed": malformed.observation["refused"]["rule"],
        "counted": [counted.reward, counted.done],
    }


def main() -> None:
    """Tell it."""
    from spectator import client

    try:
        client.LudoEnv  # noqa: B018  # what is looked up is what it is about
    except AttributeError as error:
        unknown = str(error)
    found = files("openenv-spectator") or []
    told = {
        "info": AutoEnv.get_env_info("cricket"),
        "class": AutoEnv.get_env_class("cricket") is client.CricketEnv,
        "observation": client.CricketObservation.__name__,
        "top": sorted({path.parts[0] for path in found if ".dist-info" not in path.parts[0]} - {"..", "bin"}),
        "from": spectator.__file__,
        "unknown": unknown,
        "played": played(sys.argv[1]),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
