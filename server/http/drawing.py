"""Draws SVG from standard input as a PNG to standard output, as a program: the library stops all threads."""

from __future__ import annotations

import sys

import resvg_py


def main() -> None:
    """Draw what is read."""
    sys.stdout.buffer.write(bytes(resvg_py.svg_to_bytes(svg_string=sys.stdin.buffer.read().decode())))


if __name__ == "__main__":
    main()
