"""What identifies an episode and an event in an address: the pattern of ids, the range of numbers."""

from __future__ import annotations

import re
from typing import Final

EPISODE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What an episode's id looks like."""

MAX_SEQ: Final = 2**53 - 1
"""Largest number of an event: the largest integer that JavaScript keeps exact."""
