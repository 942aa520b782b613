"""Owns the run of all measurements: ``python -m benchmarks``; prints a Markdown table."""

from __future__ import annotations

import asyncio

from benchmarks.figures import HEADER
from benchmarks.live import measure


def main() -> None:
    """Measure and print."""
    print(HEADER)
    for figure in asyncio.run(measure()):
        print(figure.row())


if __name__ == "__main__":
    main()
