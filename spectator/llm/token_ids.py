"""Ids of tokens as endpoints send them, straight into arrays."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from struct import error as StructError
from struct import pack
from typing import Any


def token_ids(values: Sequence[Any]) -> array[int]:
    """An array of ``values``; in half the time of ``array`` where they are many.

    >>> token_ids([7, 2**40])
    array('q', [7, 1099511627776])

    Raises:
        ValueError: One is no whole number of 0 .. 2**63 - 1.
    """
    try:
        packed = pack(f"<{len(values)}q", *values)
    except StructError as error:
        raise ValueError("an id of a token is no whole number of at most 63 bits") from error
    if not packed[7::8].isascii():  # their signs
        raise ValueError("an id of a token is below 0")
    ids = array("q", packed)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
