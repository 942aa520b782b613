"""Command lines of the official package, one after another in one process; runs where ``openenv`` is.

peer_commands.py LINES, a JSON list of lists of arguments
"""

from __future__ import annotations

import json
import sys

from openenv.cli.__main__ import app
from typer.testing import CliRunner  # type: ignore[import-not-found]


def main() -> None:
    """Run each of them and print what it printed."""
    done = [CliRunner().invoke(app, line) for line in json.loads(sys.argv[1])]
    print(
        json.dumps([{"exit_code": one.exit_code, "stdout": one.stdout, "stderr": one.stderr} for one in done])
    )


if __name__ == "__main__":
    main()
