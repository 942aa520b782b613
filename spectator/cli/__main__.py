"""Entry point of ``python -m spectator.cli``."""

from spectator.cli import main

main()
