"""Owns a published episode of the official client; runs where the ``openenv`` package is.

peer_publish.py BASE_URL
"""

from __future__ import annotations

import json
import sys

from openenv.core import GenericEnvClient


def main(base_url: str) -> None:
    with GenericEnvClient(base_url=base_url).sync() as env:
        result = env.reset(seed=1, turns=4, publish=True, publish_as="official client")
        place = result.observation["metadata"]["published"]
        while not result.done:
            said = f"ACTION: {result.observation['next']}"
            result = env.step({"text": said, "metadata": {"reasoning": "it is next"}})
    print(json.dumps({**place, "done": result.done}))


main(sys.argv[1])
