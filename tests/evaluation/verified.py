"""A verified result for tests of boards."""

from __future__ import annotations

from spectator.evaluation.bundles.board import VerifiedBundle, VerifiedCaptain, VerifiedFigure


def a_verified_result() -> VerifiedBundle:
    """What a small evaluation of cricket showed."""

    def captain(
        name: str, label: str, rank: int | None, won: float, source: str = "heuristic"
    ) -> VerifiedCaptain:
        return VerifiedCaptain(
            name=name, label=label, source=source, anchor=source != "model", rank=rank, own_share=0.91,
            share=VerifiedFigure(value=won, low=won - 0.1, high=won + 0.1), rating=None,
            fingerprints=[], models=["a-model/with-a-long-name-of-2026-11"] if source == "model" else [],
        )  # fmt: skip

    return VerifiedBundle(
        digest="ab" * 32, published_at="2026-11-20T10:00:00.000Z", verified_at="2026-11-21T11:00:00.000Z",
        verified_by="0.1.0", environment="cricket", environment_version="2.0", title="Cricket",
        pack="default",
        options={"max_overs": 5}, failed_decisions="random", seeds=20, seeds_made="sealed",
        commitment="cd" * 32,
        matches=240,
        captains=[
            captain("planner", "Planner", 1, 0.8),
            captain("heuristic", "Old Pro", 2, 0.5),
            captain("random", "Random captain", 3, 0.2),
            captain("llm:home", "Model of a very long name that somebody gave it", None, 0.5, "model"),
        ],
    )  # fmt: skip
