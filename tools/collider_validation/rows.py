"""Rows of the validation table: a check, its target and the measured value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """One check.

    Args:
        check: What is checked.
        target: What it should be, with its source.
        measured: What it is.
        ok: Whether it meets the target.
    """

    check: str
    target: str
    measured: str
    ok: bool

    def markdown(self) -> str:
        """Return the row of a Markdown table."""
        return f"| {self.check} | {self.target} | {self.measured} | {'yes' if self.ok else '**no**'} |"


def near(
    check: str, source: str, target: float, measured: float, within: float, digits: int = 3
) -> ValidationRow:
    """Return a row whose value must be within a distance of its target."""
    text = f"{target:.{digits}f} +- {within:g}" + (f" ({source})" if source else "")
    return ValidationRow(check, text, f"{measured:.{digits}f}", abs(measured - target) <= within)
