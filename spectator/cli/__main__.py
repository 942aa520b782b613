"""Lets `python -m spectator.cli` run the command line."""

from spectator.cli import main

main()
