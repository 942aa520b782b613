"""`spectator evaluate` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spectator.cli import main
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains


def evaluate(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["evaluate", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_it_writes_a_report_results_and_plots_and_says_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    code, told, progress = evaluate(
        "counting", "--captains", "heuristic, random", "--matches", "4", "--jobs", "1", "--out", str(out)
    )
    assert code == 0, progress
    assert " 1  heuristic" in told and "report.html" in told
    assert "4 of 4 matches" in progress
    results = json.loads((out / "results.json").read_text())
    assert [one["name"] for one in results["captains"]] == ["heuristic", "random"]
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert (out / "plots" / "ranking.svg").exists()
    code, told, progress = evaluate(
        "counting", "--captains", "heuristic,random", "--matches", "4", "--out", str(out)
    )
    assert code == 0 and "4 of 4 matches are there already" in progress


def test_wrong_names_are_told_with_the_nearest_and_nothing_is_made(tmp_path: Path) -> None:
    out = tmp_path / "none"
    code, _, told = evaluate("--captains", "herustic,anchor", "--out", str(out))
    assert code == 1 and "did you mean 'heuristic'" in told and not out.exists()
    code, _, told = evaluate("--captains", "anchor,llm:openai", "--out", str(out))
    assert code == 1 and "OPENAI_API_KEY" in told and not out.exists()


def test_the_phrase_of_a_sealed_evaluation_comes_from_a_file_and_is_written_nowhere(tmp_path: Path) -> None:
    phrase, out = tmp_path / "phrase", tmp_path / "sealed"
    phrase.write_text("told to nobody at all\n")
    code, _, told = evaluate(
        "counting", "--captains", "heuristic,random", "--matches", "2", "--jobs", "1",
        "--sealed", str(phrase), "--out", str(out),
    )  # fmt: skip
    assert code == 0, told
    assert json.loads((out / "results.json").read_text())["sealed"] is True
    for path in out.rglob("*"):
        assert path.is_dir() or b"told to nobody" not in path.read_bytes(), path


def test_the_help_says_which_seeds_are_used() -> None:
    code, told, _ = evaluate("--help")
    assert code == 0 and "development seeds" in told and "--sealed" in told and "Example:" in told


def test_a_model_is_compared_with_a_scripted_captain_and_its_tokens_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a real socket: the fake endpoint counts as asked, or falls back where it answers nonsense."""
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", fake={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        out = tmp_path / "models"
        code, _, progress = evaluate(
            "counting", "--captains", "heuristic,llm:fake", "--matches", "4", "--option", "turns=3",
            "--jobs", "2", "--out", str(out),
        )  # fmt: skip
    assert code == 0, progress
    assert "llm:fake asks its endpoint in 2 matches, which may cost money" in progress
    results = json.loads((out / "results.json").read_text())
    model = next(one for one in results["captains"] if one["name"] == "llm:fake")
    assert model["source"] == "model" and model["measures"]["tokens"]["value"] > 0
    assert (
        model["measures"]["fallbacks"]["value"] == 0.0 and model["measures"]["clean_answers"]["value"] == 1.0
    )
    assert results["pairs"][0]["tally"]["ties"] == 2 and "Model fake" in (out / "report.html").read_text()
