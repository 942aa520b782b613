"""What the doctor found: one line a check, with what to do where something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Args:
        verdict: ``ok``, ``warning`` where it works but should not stay so, or ``failed``.
        name: What was checked.
        detail: What was found and, if it is not ok, what to do.

    >>> print(Finding("warning", "HTTPS", "the address is plain HTTP; put a proxy with TLS in front"))
    warning  HTTPS: the address is plain HTTP; put a proxy with TLS in front
    """

    verdict: Verdict
    name: str
    detail: str

    def __str__(self) -> str:
        return f"{self.verdict:8} {self.name}: {self.detail}"
