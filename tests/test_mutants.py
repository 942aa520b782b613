"""The faults that the simulated days have to notice can still be planted."""

from __future__ import annotations

import pytest

from tests.simulated.mutants import MUTANTS, ROOT, Mutant, planted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.where}: {mutant.was.strip()[:40]}")
def test_every_fault_has_its_place_once_and_is_python(mutant: Mutant) -> None:
    text = planted(mutant, ROOT)
    assert text is not None, "the code has changed: say where the fault is now"
    compile(text, mutant.where, "exec")


def test_the_page_says_how_many_there_are() -> None:
    page = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    due = sum(not mutant.same for mutant in MUTANTS)
    assert f"a sample of {len(MUTANTS)} faults" in page and f"{due} that change anything" in page
