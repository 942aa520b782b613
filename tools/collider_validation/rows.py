"""A row of the validation table: one check, its target and what was measured."""

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
        """The row of a Markdown table."""
        return f"| {self.check} | {self.target} | {self.measured} | {'yes' if self.ok else '**no**'} |"


def near(
    check: str, source: str, target: float, measured: float, within: float, digits: int = 3
) -> ValidationRow:
    """A row whose figure lies within a distance of its target."""
    told = f"{target:.{digits}f} +- {within:g}" + (f" ({source})" if source else "")
    return ValidationRow(check, told, f"{measured:.{digits}f}", abs(measured - target) <= within)
