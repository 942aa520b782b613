"""The command ``spectator evaluate``."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from spectator.cli.bundles import announce_commitment, publish_bundle, sealed_phrase, with_announced_anchors
from spectator.cli.options import (
    is_in_database,
    journal_options,
    overs_option,
    refuse_unpriced,
    required_run_name,
    rest_option,
    server_url,
    spending_options,
    world_options,
)
from spectator.errors import FieldError, InvalidRequest, SpectatorError
from spectator.process_environment import read_caps, read_cast

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.evaluation.cross_table import Found
    from spectator.evaluation.evaluation_run import SharedRun
    from spectator.evaluation.results import Results
    from spectator.evaluation.schedule import EvaluationRequest, Schedule
    from spectator.policies.spending import SpendLedger, Spent
    from spectator.runs.scheduler import SpendCaps


MOST_MATCHES: Final = 2000
"""Most matches of a pair in an evaluation that stops by itself."""


def request_of(folder: Path) -> dict[str, Any]:
    """Read the arguments of a finished evaluation, except its seeds, so that it can be published.

    Raises:
        UsageError: The folder does not contain a finished evaluation.
    """
    from spectator.evaluation.schedule import RESULTS

    path = folder / RESULTS
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        captains = tuple(dict.fromkeys(match["home"] for match in kept["matches"]))
        matches_a_seed = len(captains) * (len(captains) - 1 if kept["head_to_head"] else 1)
        planned = kept.get("planned") or len(kept["matches"])
        return {
            "environment": kept["environment"], "captains": captains, "pack": kept["pack"],
            "matches": 2 * planned // matches_a_seed, "options": kept["options"],
            "failed_decisions": kept["failed_decisions"], "until": None,
        } | ({} if (rule := kept.get("until")) is None else {
            "until": rule["half_width"], "matches": 2 * rule["most"],
        })  # fmt: skip
    except FileNotFoundError as error:
        raise click.UsageError(
            "name the captains with --captains; without it --publish needs a finished evaluation in --out, "
            f"and {folder} does not contain one"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise click.UsageError(f"{path} cannot be read: {error!r:.200}") from error


AGAIN = "nothing is lost: run the same command again to continue"
"""Advice for an evaluation that is not finished."""

REPORT_EVERY_S = 15.0
"""Seconds between progress lines without a terminal."""


@click.command()
@click.argument("environment", default="cricket")
@click.option(
    "--captains",
    help="Two or more presets to compare, separated by commas; --publish can read them from --out.",
)
@click.option("--pack", default="default", help="Evaluation pack.")
@click.option(
    "--matches", type=click.IntRange(min=2), default=40,
    help="Matches per pair of captains; must be even, because each seed is played from both seats.",
)  # fmt: skip
@click.option(
    "--until", metavar="TEXT",
    help="Stop when the interval of every pair is this narrow, such as '+-5 points'; --matches is then the "
    f"most matches of a pair, by default {MOST_MATCHES:,}.",
)  # fmt: skip
@click.option(
    "--prompts", type=click.Choice(["own", "all"]), default="own",
    help="Which prompts models play with: their own, or every one, each in a row of its own.",
)  # fmt: skip
@overs_option
@world_options
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, help="Seed of the matches, if the pack has none."
)
@click.option(
    "--sealed", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a secret phrase; derives secret seeds from it instead of development seeds.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1, max=256), default=2, help="Matches at once.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("evaluation"),
    help="Folder for the journal and the report.",
)  # fmt: skip
@click.option(
    "--failed-decisions", type=click.Choice(["random", "fallback", "forfeit"]), default="random",
    help="What happens if a captain fails to decide: a random legal action, the decision of the world's "
    "scripted captain, or the loss of the match.",
)  # fmt: skip
@rest_option
@click.option(
    "--publish", type=click.Path(path_type=Path), metavar="DIR",
    help="Write a bundle that anyone can check with `spectator verify-bundle`; adds the world's anchors.",
)  # fmt: skip
@click.option(
    "--estimate",
    is_flag=True,
    help="Print the expected calls, tokens, cost and time without calling a model.",
)
@click.option(
    "--people", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Data folder of a server: compare people's matches on the same seeds with the captains'.",
)  # fmt: skip
@spending_options("the whole evaluation")
@journal_options
@click.option("--name", hidden=True, help="Run as worker process NAME.")
def evaluate(**given: Any) -> None:
    """Compare captains on the same seeds, with 95 % intervals.

    Every pair of captains plays the same seeds, each seed twice with the seats swapped. By default these are
    development seeds (from the pack, or derived from --seed), which any captain may have been tuned on. With
    --sealed they are derived from a phrase that only you know, and differ from all development seeds.

    --out then contains report.html, results.json, the plots, and journal.db with every match. If the command
    is interrupted, run it again to continue; you can also add captains or matches.

    With --journal and --run, matches are recorded in PostgreSQL instead: run the same command on other
    machines to share the work. Each writes the report when all matches are finished.

    --estimate lets scripted captains play one match in place of the models and prints the expected cost
    without calling a model. --max-tokens and --max-cost limit model usage, earlier runs in the folder
    included, and so do the caps SPECTATOR_MODEL_*. A match starts only if the remaining budget can finish
    it. If a cap of the evaluation or of the day is reached, or an endpoint does not answer, the evaluation
    stops at once, so that no fallback is scored in place of a model. If the cap of an episode is reached, a
    fallback plays it to the end, and the report names the episode.

    --until '+-5 points' plays in batches of seeds until the 95 % interval of every pair is that narrow. The
    next batch goes to the pair that it is expected to help most for its cost. The intervals hold whenever it
    stops, also at --max-cost.

    --prompts all lets every model play with each version of the prompt: the same model in several rows shows
    how much its result depends on the prompt. `llm:mine@short` names one of them.

    --publish DIR writes the finished evaluation as a bundle that anyone can check without a key. The anchors
    of the world (random, heuristic, planner) play too. In a new folder the seeds are sealed: the phrase comes
    from --sealed or is generated, and the bundle reveals it. With --out and without --captains, --publish
    publishes the evaluation in that folder.

    \b
    Example: spectator evaluate --captains heuristic,tactician --matches 400 --out tactician
             HF_TOKEN=... spectator evaluate --captains llm:hf,heuristic --matches 40 --jobs 8 --max-cost 5
    Decision values need forecasts: add --option forecast_futures=200
    """
    out: Path = given["out"]
    publish: Path | None = given["publish"]
    shared = _shared_run(given["journal"], given["run_name"])
    if given["name"] is not None:
        sys.exit(_play_as_worker(out, given["name"], shared))
    if publish is not None and shared is not None:
        raise click.UsageError("--publish needs the matches in the folder; omit --journal and --run")
    if given["until"] is not None and shared is not None:
        raise click.UsageError("--until decides in one process; omit --journal and --run")
    request, schedule = _plan(given)
    if given["estimate"]:
        return _estimate(schedule, given["jobs"])
    if request.phrase is not None:
        announce_commitment(schedule, request.phrase, None if given["sealed"] else out)
    results, judged = _play(schedule, given, shared)
    if publish is not None and (results.cut_short is None or schedule.rule is not None):
        publish_bundle(judged, request, out, publish)
    _need_all_played(results)


def _shared_run(journal: str | None, run_name: str | None) -> SharedRun | None:
    """The run in PostgreSQL that the options select; ``None`` for a run in a folder."""
    from spectator.evaluation.evaluation_run import SharedRun

    if not is_in_database(journal, run_name):
        return None
    name = required_run_name(run_name)
    options = ["--run", name, *([] if journal is None else ["--journal", journal])]
    return SharedRun(server_url(journal), name, options)


def _play_as_worker(out: Path, name: str, shared: SharedRun | None) -> int:
    """Play matches of the evaluation in ``out`` until none remains; return the exit code."""
    from spectator.cli.rollouts_run import collect_rarely
    from spectator.clock import SystemClock
    from spectator.evaluation.evaluation_run import play_as_worker
    from spectator.runs.worker_processes import HALTED, HALTED_LINE, end_with_parent

    threading.Thread(target=end_with_parent, daemon=True).start()
    collect_rarely()
    try:
        playing = play_as_worker(out, name, clock=SystemClock(), rng=random.SystemRandom(), shared=shared)
        halted = asyncio.run(playing)
    except asyncio.CancelledError:
        return 143
    except SpectatorError as error:
        halted = str(error)
    if halted is not None:
        click.echo(f"{HALTED_LINE}{' '.join(halted.split())}", err=True)
    return 0 if halted is None else HALTED


def _plan(given: Mapping[str, Any]) -> tuple[EvaluationRequest, Schedule]:
    """Plan the evaluation from the options, or from the finished evaluation to publish."""
    from spectator.evaluation.prompt_versions import knowing_versions, with_every_version
    from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation
    from spectator.evaluation.sequential import half_width_of

    until, overs, publishes = given["until"], given["overs"], given["publish"] is not None
    names = ("environment", "pack", "options", "failed_decisions", "waits_for_rest")
    asked = {name: given[name] for name in names}
    asked["until"] = None if until is None else half_width_of(until)
    asked["matches"] = MOST_MATCHES if until is not None and _is_default("matches") else given["matches"]
    if overs is not None:
        asked["options"] = {**asked["options"], "max_overs": overs}
    if given["captains"] is not None:
        asked["captains"] = tuple(name.strip() for name in given["captains"].split(",") if name.strip())
    elif not publishes:
        raise click.UsageError("Missing option '--captains'.")
    else:
        asked |= request_of(given["out"])
    if given["sealed"] is not None:
        phrase: str | None = given["sealed"].read_text(encoding="utf-8").strip()
    else:
        phrase = sealed_phrase(given["out"], draw=publishes and _is_default("seed"))
    load: LoadWorld = read_cast().load
    if given["prompts"] == "all":
        asked["captains"] = with_every_version(asked["captains"], load(asked["environment"]))
    load = knowing_versions(load, asked["captains"])
    request = EvaluationRequest(**asked, seed=given["seed"], phrase=phrase)
    if publishes:
        request = with_announced_anchors(request, load)
    return request, plan_evaluation(request, load=load, keyless=given["estimate"])


def _is_default(option: str) -> bool:
    """Whether an option of the command was not given."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.DEFAULT


def _play(schedule: Schedule, given: Mapping[str, Any], shared: SharedRun | None) -> tuple[Results, Schedule]:
    """Play the remaining matches within the caps, write the report, and print the findings.

    Returns:
        The results, and the matches that they rest on.
    """
    from spectator.clock import SystemClock
    from spectator.evaluation.report import plots_of, report_page
    from spectator.evaluation.schedule import PLOTS, REPORT, RESULTS, write_text
    from spectator.policies.model_presets import preload
    from spectator.policies.spending import Caps

    out: Path = given["out"]
    people: Path | None = given["people"]
    if paid := schedule.paid:
        preload()
        _warn_of_cost(schedule, paid, given["max_cost"])
    whole = Caps(given["max_tokens"] or 0, given["max_cost"] or 0.0)
    caps = read_caps().ledger(SystemClock(), whole=whole).caps
    results, judged, found = asyncio.run(_run(schedule, out, given["jobs"], caps, shared))
    compared = [] if people is None else asyncio.run(_compare_people(people, judged, found, out))
    write_text(out / RESULTS, results.model_dump_json(indent=1))
    plots = plots_of(results)
    write_text(out / REPORT, report_page(results, ["spectator", *sys.argv[1:]], plots, compared))
    (out / PLOTS).mkdir(exist_ok=True)
    for name, svg in plots.items():
        write_text(out / PLOTS / f"{name}.svg", svg)
    _conclude(results, out, compared)
    return results, judged


async def _compare_people(people: Path, judged: Schedule, found: Found, out: Path) -> list[str]:
    """Compare people's matches in a server's data folder; write the comparison, and return it in words."""
    from spectator.evaluation.people import FILE, people_beside
    from spectator.evaluation.schedule import write_text
    from spectator.journal import JOURNAL_FILE
    from spectator.journal.sql_journal import SqlJournal

    path = people / JOURNAL_FILE
    if not await asyncio.to_thread(path.is_file):
        raise InvalidRequest([FieldError("people", f"there is no journal at {path}")])
    journal = await SqlJournal.open(f"sqlite:///{path}", writable=False)
    try:
        compared = await people_beside(journal, judged, found)
    finally:
        await journal.aclose()
    if compared is None:
        return [f"No person played these seeds in {people}."]
    await asyncio.to_thread(write_text, out / FILE, compared.model_dump_json(indent=1))
    return list(compared.lines())


def _need_all_played(results: Results) -> None:
    """Raise if the evaluation or one of its matches did not finish."""
    if results.cut_short is not None:
        raise click.ClickException(f"{results.cut_short}; {AGAIN}, once that is fixed")
    if any(match.reason != "finished" and match.forfeited is None for match in results.matches):
        raise click.ClickException("some matches did not finish; the report names them")


def _estimate(schedule: Schedule, jobs: int) -> None:
    """Print the expected usage of the models of ``schedule``."""
    from spectator.evaluation.estimate import estimate_evaluation, power_lines, total_lines

    estimates = estimate_evaluation(schedule)
    if not estimates:
        click.echo("no captain of this evaluation is a language model, so it uses no tokens")
    for one in estimates:
        click.echo("\n".join(one.lines(jobs)))
    click.echo("\n".join([*total_lines(estimates, jobs), *power_lines(schedule)]))


def _warn_of_cost(schedule: Schedule, paid: Sequence[str], max_cost: float | None) -> None:
    """Warn that the captains ``paid`` may cost money.

    Raises:
        InvalidRequest: The price of one is unknown, so a cost cap could not limit it.
    """
    if max_cost:
        refuse_unpriced([schedule.world.captains[name] for name in paid])
    for name in paid:
        matches = sum(name in (match.home, match.away) for match in schedule.matches)
        most = "" if schedule.rule is None else "at most "
        click.echo(f"{name} calls its endpoint in {most}{matches} matches, which may cost money", err=True)


async def _run(
    schedule: Schedule, out: Path, jobs: int, caps: SpendCaps, shared: SharedRun | None
) -> tuple[Results, Schedule, Found]:
    from spectator.clock import SystemClock
    from spectator.evaluation.cross_table import judged
    from spectator.evaluation.evaluation_run import Played, run_by_rule, run_evaluation
    from spectator.evaluation.results import results_of

    total = len(schedule.matches)
    with click.progressbar(length=total, label="matches", file=sys.stderr, show_pos=True) as bar:
        progress = _EvaluationProgress(bar)
        reporting: list[asyncio.Task[None]] = []

        def begin(ledger: SpendLedger) -> None:
            for task in reporting:
                task.cancel()
            reporting.append(asyncio.create_task(_report_spending(progress, ledger)))

        async def play(chosen: Schedule) -> Played:
            return await run_evaluation(
                chosen,
                out,
                jobs=jobs,
                clock=SystemClock(),
                report=progress.matches_over,
                caps=caps,
                on_begin=begin,
                shared=shared,
            )

        try:
            if schedule.rule is None:
                run = await play(schedule)
            else:
                schedule, run = await run_by_rule(schedule, schedule.rule, play, out)
        except asyncio.CancelledError:
            of_all = f"{progress.over} of {total} matches are finished"
            click.echo(f"\ninterrupted: {of_all}; {AGAIN}", err=True)
            raise
        finally:
            for task in reporting:
                task.cancel()
    whole = judged(schedule, run.found)
    if run.cut_short is not None and not whole.pairs:
        raise click.ClickException(
            f"{run.cut_short}; {len(run.found)} of {len(schedule.matches)} matches are finished, too few for "
            f"results; {AGAIN}, once that is fixed"
        )
    results = await asyncio.to_thread(results_of, schedule, run.found, run.cut_short)
    return results, whole, run.found


async def _report_spending(progress: _EvaluationProgress, ledger: SpendLedger) -> None:
    """Print the model usage periodically: a match may last for minutes."""
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        if ledger.whole.tokens:
            progress.spent_so_far(ledger.whole)


class _EvaluationProgress:
    """Shows the progress: a bar on a terminal, otherwise periodic lines."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self.over = 0
        self._began = self._shown = time.monotonic()
        self._before: int | None = None
        self._terminal = sys.stderr.isatty()

    def matches_over(self, over: int, total: int) -> None:
        """Show the number of finished matches."""
        self._bar.length = total
        self._bar.update(over - self._bar.pos)
        self.over = over
        now = time.monotonic()
        if self._before is None:
            self._before, self._began = over, now
            if over:
                click.echo(f"{over} of {total} matches are already finished", err=True)
        elif not self._terminal and (now - self._shown >= REPORT_EVERY_S or over == total):
            self._shown = now
            left = (now - self._began) / max(1, over - self._before) * (total - over)
            click.echo(f"{over} of {total} matches, about {left:.0f} s to go", err=True)

    def spent_so_far(self, spent: Spent) -> None:
        """Show the model usage so far, next to the bar or on a line."""
        cost = f", US${spent.cost:.4g}" if spent.cost else ""
        taken = f"{spent.tokens:,} tokens{cost}"
        if self._terminal:
            self._bar.label = f"matches ({taken})"
            self._bar.render_progress()
        else:
            click.echo(f"{self.over} of {self._bar.length} matches; {taken} so far", err=True)


def _conclude(results: Results, out: Path, compared: Sequence[str]) -> None:
    """Print the results."""
    from spectator.evaluation.report import conclusions
    from spectator.evaluation.schedule import REPORT

    width = max(len(one.name) for one in results.captains)
    for one in results.captains:
        share = "not ranked"
        if (won := one.share) is not None:
            share = f"{100 * won.value:5.1f} %  ({100 * won.low:.1f} to {100 * won.high:.1f})"
        place, rating = ("", "") if one.rating is None else (one.rank, f"{one.rating.value:+.0f}")
        click.echo(f"{place:>2}  {one.name:{width}}  {rating:>5}  {share}")
    for one in results.captains:
        if one.source == "model":
            usage = f"{one.asked.tokens:,} tokens, US${one.asked.cost:.4g}"
            click.echo(f"{one.name} made {one.asked.decisions} decisions: {usage}")
    for line in (*conclusions(results), *compared):
        click.echo(line)
    click.echo(out / REPORT)
