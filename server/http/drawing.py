"""A program that converts SVG on standard input to PNG; in-process, the library stops all threads."""

from __future__ import annotations

import sys

import resvg_py


def main() -> None:
    """Convert standard input to standard output."""
    sys.stdout.buffer.write(bytes(resvg_py.svg_to_bytes(svg_string=sys.stdin.buffer.read().decode())))


if __name__ == "__main__":
    main()
