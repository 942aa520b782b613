"""Names that other programs gave, in the form in which records take them."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from spectator.catalog import world_names
from spectator.events import NAME_PATTERN

_PLAIN: Final = re.compile(r"[^a-z0-9]+")


def environment_name(name: str) -> str:
    """A short name for what was played elsewhere; never that of a world that is here.

    >>> environment_name("Prime/GSM8K v2"), environment_name("counting"), environment_name("")
    ('prime_gsm8k_v2', 'counting_imported', 'imported')
    """
    plain = _PLAIN.sub("_", name.lower()).strip("_")[:48] or "imported"
    plain = plain if plain[0].isalpha() else f"env_{plain}"
    return f"{plain}_imported" if plain in world_names() else plain


def plain_name(name: str | None) -> str | None:
    """A name of a run or a group as records take it; one that does not fit is told apart by its digest.

    >>> plain_name("g0"), plain_name(None)
    ('g0', None)
    >>> plain_name("math / 12")
    'math-12-9525047e'
    """
    if not name:
        return None
    if re.fullmatch(NAME_PATTERN, name):
        return name
    kept = re.sub(r"[^A-Za-z0-9._:@]+", "-", name).strip("-._:@")[:40] or "group"
    return f"{kept}-{sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
