"""Runs the command line as ``python -m spectator.cli``."""

from spectator.cli import main

main()
