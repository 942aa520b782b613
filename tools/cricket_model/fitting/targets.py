"""Real values of the statistics that judge simulated matches."""

from __future__ import annotations

from collections import defaultdict

from tools.cricket_model.fitting.counts import WICKET_BANDS, read_json, read_rows
from tools.cricket_model.realism import TARGET_BANDS


def real_statistics() -> dict[str, float]:
    """Return every statistic of `realism.statistics` in the tables, by the same names."""
    return _rates() | _by_wickets() | _totals() | _progress() | _batting() | _events() | _chases()


def _rates() -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in read_rows("ball_outcomes_by_phase.csv"):
        if row["cohort"] == "all":
            n = float(row["deliveries"])
            start = f"{row['innings']} {row['phase']}"
            figures |= {
                f"{start} runs per over": float(row["runs_per_over"]),
                f"{start} wickets per delivery": float(row["wickets"]) / n,
                f"{start} dots": float(row["p_0"]),
                f"{start} singles": float(row["p_1"]),
                f"{start} fours": float(row["p_4"]),
                f"{start} sixes": float(row["p_6"]),
            }
    return figures


def _by_wickets() -> dict[str, float]:
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0] * 4)
    for row in read_rows("ball_outcomes_by_phase_state.csv"):
        cell = sums[row["innings"], row["phase"], row["wickets_lost"]]
        for at, name in enumerate(("deliveries", "runs_total", "legal", "wickets")):
            cell[at] += float(row[name])
    figures: dict[str, float] = {}
    for (innings, phase, band), (n, runs, legal, wickets) in sums.items():
        if not (phase == "pp" and band in WICKET_BANDS[2:]):
            figures[f"{innings} {phase} runs per over, {band} down"] = 6 * runs / legal
            figures[f"{innings} {phase} wickets per delivery, {band} down"] = wickets / n
    return figures


def _totals() -> dict[str, float]:
    summary = read_json("innings_summary.json")["all"]
    figures: dict[str, float] = {}
    for innings in (1, 2):
        total, wickets = summary[f"innings{innings}_total"], summary[f"wickets_innings{innings}"]
        figures |= {
            f"{innings} total mean": total["mean"],
            f"{innings} total sd": total["sd"],
            f"{innings} total 5 %": total["p5"],
            f"{innings} total 95 %": total["p95"],
            f"{innings} wickets mean": wickets["mean"],
            f"{innings} wickets sd": wickets["sd"],
            f"{innings} all out": summary[f"all_out_rate_innings{innings}"],
        }
    return figures


def _progress() -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in read_rows("cumulative_by_over.csv"):
        if row["cohort"] == "all" and row["after_over"] in ("6", "10", "15"):
            start = f"{row['innings']} score after {row['after_over']}"
            figures |= {
                f"{start} mean": float(row["score_mean"]),
                f"{start} sd": float(row["score_sd"]),
                f"{row['innings']} wickets after {row['after_over']}": float(row["wkts_mean"]),
            }
    return figures


def _batting() -> dict[str, float]:
    return {
        f"{row['innings']} stand for wicket {row['for_wicket']}": float(row["runs_mean"])
        for row in read_rows("partnerships.csv")
        if row["for_wicket"] in ("1", "2", "3", "4", "5", "6", "8")
    }


def _events() -> dict[str, float]:
    figures: dict[str, float] = {}
    for row in read_rows("batter_innings_by_position.csv"):
        if int(row["position"]) in (1, 2, 3, 4, 5, 6, 7, 9):
            start = f"batter {row['position']}"
            figures |= {f"{start} runs": float(row["runs_mean"]), f"{start} balls": float(row["balls_mean"])}
            if int(row["position"]) <= 5:
                figures[f"{start} fifties"] = float(row["share_50plus"])
    kinds: dict[str, float] = defaultdict(float)
    for row in read_rows("dismissals_by_phase.csv"):
        kinds[row["dismissal_kind"]] += float(row["n"])
    for kind in ("caught", "bowled", "lbw", "run out", "stumped", "caught and bowled"):
        figures[f"dismissed {kind}"] = kinds[kind] / sum(kinds.values())
    extras = read_json("extras.json")
    for kind in ("wide", "noball", "bye", "legbye"):
        figures[f"extras {kind}"] = extras["extras_per_innings"][f"{kind}s"]
    summary = read_json("innings_summary.json")["all"]
    shares = {int(runs): share for runs, share in summary["runs_in_a_full_over"]["share"].items()}
    return figures | {
        "over runs mean": summary["runs_in_a_full_over"]["mean"],
        "over runs sd": summary["runs_in_a_full_over"]["sd"],
        "over without wicket": summary["wickets_in_a_full_over"]["0"],
        "over of 15 or more": sum(share for runs, share in shares.items() if runs >= 15),
        "over of 3 or fewer": sum(share for runs, share in shares.items() if runs <= 3),
        "free hit runs": extras["free_hit"]["bat_runs_per_delivery"],
    }


def _chases() -> dict[str, float]:
    summary, variance = read_json("innings_summary.json")["all"], read_json("variance.json")["all"]
    figures = {
        "chase won": summary["chase_win_share"],
        "tied": summary["tie_share"],
        "runs short in lost chases": summary["runs_short_in_lost_chases"]["mean"],
        "balls left in won chases": summary["balls_left_in_won_chases"]["mean"],
        "chases reaching the last over": summary["last_over_share_of_chases"],
        "correlation of powerplays": variance["corr_powerplay_runs_inn1_inn2"],
        "correlation of powerplay and overs 7-15": variance["corr_inn1_pp_with_overs7_15"],
    }
    rows = [row for row in read_rows("chase_by_target.csv") if row["sample"] == "train_2018on"]
    for low, high in TARGET_BANDS:
        band = [row for row in rows if low <= int(row["target_from"]) and int(row["target_to"]) <= high]
        n = sum(float(row["matches"]) for row in band)
        figures[f"chase won, target {low}-{high}"] = (
            sum(float(row["matches"]) * float(row["chase_win_rate"]) for row in band) / n
        )
    return figures
