"""The command ``spectator evaluate``, and the bundle that --publish writes."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

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
from spectator.process_environment import private_variables, read_caps, read_cast

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.evaluation.evaluation_run import SharedRun
    from spectator.evaluation.results import Results
    from spectator.evaluation.schedule import EvaluationRequest, Schedule
    from spectator.events import FailedDecisions
    from spectator.policies.spending import SpendLedger, Spent
    from spectator.runs.scheduler import SpendCaps


PHRASE: Final = "sealed-phrase.txt"
"""File of an evaluation's folder that holds the phrase that was drawn for it."""


def request_of(folder: Path) -> dict[str, Any]:
    """What a finished evaluation was asked for, but for its seeds, to be published without asking again.

    Raises:
        UsageError: The folder holds no finished evaluation.
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
            "failed_decisions": kept["failed_decisions"],
        }  # fmt: skip
    except FileNotFoundError as error:
        raise click.UsageError(
            "name the captains with --captains; without it --publish needs a finished evaluation in --out, "
            f"and {folder} holds none"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise click.UsageError(f"{path} cannot be read: {error!r:.200}") from error


def sealed_phrase(folder: Path, *, draw: bool) -> str | None:
    """The phrase that the evaluation in ``folder`` was begun with, or one that is drawn now; else ``None``.

    Args:
        folder: The evaluation's.
        draw: Whether one is drawn for a folder that holds nothing yet; :func:`announce_commitment` keeps it.
    """
    from spectator.evaluation.schedule import MANIFEST

    path = folder / PHRASE
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    return secrets.token_urlsafe(32) if draw and not (folder / MANIFEST).exists() else None


def _keep_phrase(folder: Path, phrase: str) -> None:
    """Keep a phrase that was drawn in the evaluation's folder, readable for its owner alone."""
    from spectator.evaluation.schedule import write_text

    path = folder / PHRASE
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, phrase + "\n")
        path.chmod(0o600)
        click.echo(f"the phrase of the seeds was drawn now; keep it to yourself until then: {path}", err=True)


def with_announced_anchors(request: EvaluationRequest, load: LoadWorld) -> EvaluationRequest:
    """``request`` with the world's anchors among its captains; says which are added."""
    from spectator.evaluation.bundles.bundle import anchors_of
    from spectator.evaluation.bundles.publication import with_anchors

    try:
        anchored = with_anchors(request, anchors_of(load(request.environment)))
    except InvalidRequest as error:
        raise InvalidRequest([FieldError("environment", one.rule) for one in error.fields]) from error
    if added := anchored.captains[len(request.captains) :]:
        click.echo(
            f"{', '.join(added)} {'joins' if len(added) == 1 else 'join'} as in every bundle; all play "
            "them too: --estimate says what that takes",
            err=True,
        )
    return anchored


def announce_commitment(schedule: Schedule, phrase: str, keep_in: Path | None) -> None:
    """Say what may be published before a match is played, so that the phrase cannot be chosen afterwards.

    Args:
        schedule: What is going to be played.
        phrase: That of its seeds.
        keep_in: The evaluation's folder, for a phrase that was drawn; ``None`` where somebody brought it.
    """
    from spectator.evaluation.bundles.bundle import commitment

    if keep_in is not None:
        _keep_phrase(keep_in, phrase)
    stated = commitment(schedule.world.name, schedule.pack, phrase)
    click.echo(f"sealed seeds, commitment {stated}", err=True)


def publish_bundle(schedule: Schedule, request: EvaluationRequest, folder: Path, target: Path) -> None:
    """Write the bundle of the evaluation in ``folder``, which is whole."""
    from spectator.clock import SystemClock
    from spectator.evaluation.bundles.publication import private_texts, publish
    from spectator.evaluation.schedule import keep_manifest

    clock = SystemClock()
    kept = keep_manifest(folder, schedule, int(clock.now().timestamp() * 1000))
    private = private_texts(
        schedule.world, private_variables(), (Path.home(), Path.cwd(), folder, target.parent)
    )
    with click.progressbar(label="bundle", file=sys.stderr, length=1, show_pos=True) as bar:

        def report(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        published = asyncio.run(
            publish(schedule, request, folder, kept, target, private=private, clock=clock, report=report)
        )
    megabytes = published.bytes / 1e6
    click.echo(
        f"{published.folder}: {published.episodes} episodes, {megabytes:.1f} MB, digest {published.digest}"
    )
    click.echo(f"check it anywhere, without a key: spectator verify-bundle {published.folder}")


AGAIN = "nothing is lost: the same command plays on from here"
"""What to do when not all was played."""

REPORT_EVERY_S = 15.0
"""Seconds between lines of progress where there is no terminal."""


@click.command()
@click.argument("environment", default="cricket")
@click.option(
    "--captains",
    help="Presets to compare, two or more, set apart by commas; --publish reads them from --out.",
)
@click.option("--pack", default="default", show_default=True, help="Evaluation pack.")
@click.option(
    "--matches", type=click.IntRange(min=2), default=40, show_default=True,
    help="Matches of each pair of captains; even, for each seed is played from both seats.",
)  # fmt: skip
@overs_option
@world_options
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Where the pack brings no seeds."
)
@click.option(
    "--sealed", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a secret phrase to make the seeds from, instead of the development seeds.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1, max=256), default=2, show_default=True, help="Matches at once."
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("evaluation"), show_default=True,
    help="Folder of the journal and the report.",
)  # fmt: skip
@click.option(
    "--failed-decisions", type=click.Choice(["random", "fallback", "forfeit"]), default="random",
    show_default=True,
    help="What counts where a captain does not decide: a legal action drawn at random, the decision of the "
    "world's scripted captain, or the loss of the match.",
)  # fmt: skip
@rest_option
@click.option(
    "--publish", type=click.Path(path_type=Path), metavar="DIR",
    help="Write a bundle that anybody can check with `spectator verify-bundle`; the world's anchors join.",
)  # fmt: skip
@click.option(
    "--estimate", is_flag=True, help="Say what it would take in calls, tokens, money and time; ask nobody."
)
@spending_options("the whole evaluation")
@journal_options
@click.option("--name", hidden=True, help="Play matches for the process that started this one, as NAME.")
def evaluate(
    environment: str,
    captains: str | None,
    pack: str,
    matches: int,
    overs: int | None,
    options: dict[str, Any],
    seed: int,
    sealed: Path | None,
    jobs: int,
    out: Path,
    failed_decisions: FailedDecisions,
    waits_for_rest: bool,
    publish: Path | None,
    estimate: bool,
    max_tokens: int | None,
    max_cost: float | None,
    journal: str | None,
    run_name: str | None,
    name: str | None,
) -> None:
    """Find out which captain is better, and by how much that is known.

    Every pair of captains plays the same seeds, each seed twice with the seats swapped. The seeds are
    development seeds (those of the pack, or made from --seed), on which anybody may have tuned a captain;
    with --sealed they come from a phrase that only you know, and are disjoint from all development seeds.

    With --journal and --run, matches are recorded in PostgreSQL instead: the same command on other machines
    plays the same evaluation, and each writes the report when all is played.

    The folder then holds report.html, results.json, the plots, and journal.db with every match. Killed or
    interrupted, the same command plays on from there; so it does with more captains or more matches.

    --estimate plays one match by scripted captains in the models' place, asks nobody, and says what the
    evaluation would take. Models are asked within --max-tokens and --max-cost, earlier runs in the folder
    included, and within the caps SPECTATOR_MODEL_*; no match begins that what is left would not finish.
    When these or the day are spent, or an endpoint does not answer, the evaluation stops at once: no
    fallback is judged in a model's place. Beyond the cap of an episode a fallback plays it to its end, and
    the report names it.

    --publish DIR writes all of it, once it is played, as a bundle that anybody can check without a key. The
    anchors of the world (random, heuristic, planner) play too, and a new folder's seeds are sealed, from a
    phrase that is drawn unless --sealed brings one; the bundle tells it. Alone with --out it publishes what
    is played there.

    \b
    Example: spectator evaluate --captains heuristic,tactician --matches 400 --out tactician
             HF_TOKEN=... spectator evaluate --captains llm:hf,heuristic --matches 40 --jobs 8 --max-cost 5
    Values of decisions need forecasts: add --option forecast_futures=200
    """
    shared = _shared_run(journal, run_name)
    if name is not None:
        sys.exit(_play_as_worker(out, name, shared))
    if publish is not None and shared is not None:
        raise click.UsageError("--publish needs the matches in the folder; leave --journal and --run out")
    asked = {
        "environment": environment, "pack": pack, "matches": matches,
        "options": options if overs is None else {**options, "max_overs": overs},
        "failed_decisions": failed_decisions, "waits_for_rest": waits_for_rest,
    }  # fmt: skip
    request, schedule = _plan(asked, captains, out, sealed, seed, publish)
    if estimate:
        return _estimate(schedule, jobs)
    if request.phrase is not None:
        announce_commitment(schedule, request.phrase, None if sealed else out)
    results = _play(schedule, out, jobs, max_tokens, max_cost, shared)
    if publish is not None and results.cut_short is None:
        publish_bundle(schedule, request, out, publish)
    _need_all_played(results)


def _shared_run(journal: str | None, run_name: str | None) -> SharedRun | None:
    """The run in a database that the options name; ``None`` for one in a folder."""
    from spectator.evaluation.evaluation_run import SharedRun

    if not is_in_database(journal, run_name):
        return None
    name = required_run_name(run_name)
    options = ["--run", name, *([] if journal is None else ["--journal", journal])]
    return SharedRun(server_url(journal), name, options)


def _play_as_worker(out: Path, name: str, shared: SharedRun | None) -> int:
    """Play matches of the evaluation in ``out`` until none remains; the exit code."""
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


def _plan(
    asked: dict[str, Any],
    captains: str | None,
    out: Path,
    sealed: Path | None,
    seed: int,
    publish: Path | None,
) -> tuple[EvaluationRequest, Schedule]:
    """What is to be found out, by the options, or by the finished evaluation that is to be published."""
    from spectator.evaluation.schedule import EvaluationRequest, plan_evaluation

    if captains is not None:
        asked["captains"] = tuple(name.strip() for name in captains.split(",") if name.strip())
    elif publish is None:
        raise click.UsageError("Missing option '--captains'.")
    else:
        asked |= request_of(out)
    chosen = click.get_current_context().get_parameter_source("seed") is not ParameterSource.DEFAULT
    if sealed is not None:
        phrase: str | None = sealed.read_text(encoding="utf-8").strip()
    else:
        phrase = sealed_phrase(out, draw=publish is not None and not chosen)
    load = read_cast().load
    request = EvaluationRequest(**asked, seed=seed, phrase=phrase)
    if publish is not None:
        request = with_announced_anchors(request, load)
    return request, plan_evaluation(request, load=load)


def _play(
    schedule: Schedule,
    out: Path,
    jobs: int,
    max_tokens: int | None,
    max_cost: float | None,
    shared: SharedRun | None,
) -> Results:
    """Play what is owed of ``schedule`` within the caps, write the report, and say what was found."""
    from spectator.clock import SystemClock
    from spectator.evaluation.report import plots_of, report_page
    from spectator.evaluation.schedule import PLOTS, REPORT, RESULTS, write_text
    from spectator.policies.model_presets import preload
    from spectator.policies.spending import Caps

    if paid := schedule.paid:
        preload()
        _warn_of_cost(schedule, paid, max_cost)
    caps = read_caps().ledger(SystemClock(), whole=Caps(max_tokens or 0, max_cost or 0.0)).caps
    results = asyncio.run(_run(schedule, out, jobs, caps, shared))
    write_text(out / RESULTS, results.model_dump_json(indent=1))
    plots = plots_of(results)
    write_text(out / REPORT, report_page(results, ["spectator", *sys.argv[1:]], plots))
    (out / PLOTS).mkdir(exist_ok=True)
    for name, svg in plots.items():
        write_text(out / PLOTS / f"{name}.svg", svg)
    _conclude(results, out)
    return results


def _need_all_played(results: Results) -> None:
    """Raise where the evaluation, or a match of it, did not come to its end."""
    if results.cut_short is not None:
        raise click.ClickException(f"{results.cut_short}; {AGAIN}, once that is put right")
    if any(match.reason != "finished" and match.forfeited is None for match in results.matches):
        raise click.ClickException("some matches did not finish; the report names them")


def _estimate(schedule: Schedule, jobs: int) -> None:
    """Say what the models of ``schedule`` would take."""
    from spectator.evaluation.estimate import estimate_evaluation

    estimates = estimate_evaluation(schedule)
    if not estimates:
        click.echo("no captain of this evaluation is a language model: it takes no tokens")
    for one in estimates:
        click.echo("\n".join(one.lines(jobs)))


def _warn_of_cost(schedule: Schedule, paid: Sequence[str], max_cost: float | None) -> None:
    """Say that the captains ``paid`` may cost money.

    Raises:
        InvalidRequest: A cap of money could not limit one of them.
    """
    if max_cost:
        refuse_unpriced([schedule.world.captains[name] for name in paid])
    for name in paid:
        matches = sum(name in (match.home, match.away) for match in schedule.matches)
        click.echo(f"{name} asks its endpoint in {matches} matches, which may cost money", err=True)


async def _run(
    schedule: Schedule, out: Path, jobs: int, caps: SpendCaps, shared: SharedRun | None
) -> Results:
    from spectator.clock import SystemClock
    from spectator.evaluation.evaluation_run import run_evaluation
    from spectator.evaluation.results import results_of

    total = len(schedule.matches)
    with click.progressbar(length=total, label="matches", file=sys.stderr, show_pos=True) as bar:
        progress = _EvaluationProgress(bar)
        reporting: list[asyncio.Task[None]] = []

        def begin(ledger: SpendLedger) -> None:
            reporting.append(asyncio.create_task(_report_spending(progress, ledger)))

        try:
            run = await run_evaluation(
                schedule,
                out,
                jobs=jobs,
                clock=SystemClock(),
                report=progress.matches_over,
                caps=caps,
                on_begin=begin,
                shared=shared,
            )
        except asyncio.CancelledError:
            click.echo(f"\ninterrupted: {progress.over} of {total} matches are played; {AGAIN}", err=True)
            raise
        finally:
            for task in reporting:
                task.cancel()
    if run.cut_short is not None and not schedule.whole(run.found).pairs:
        raise click.ClickException(
            f"{run.cut_short}; {len(run.found)} of {total} matches are played, too few to judge; {AGAIN}, "
            "once that is put right"
        )
    return await asyncio.to_thread(results_of, schedule, run.found, run.cut_short)


async def _report_spending(progress: _EvaluationProgress, ledger: SpendLedger) -> None:
    """Say now and then what asking models has taken: a match may last for minutes."""
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        if ledger.whole.tokens:
            progress.spent_so_far(ledger.whole)


class _EvaluationProgress:
    """Tells how far it is: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self.over = 0
        self._began = self._told = time.monotonic()
        self._before: int | None = None
        self._terminal = sys.stderr.isatty()

    def matches_over(self, over: int, total: int) -> None:
        """Take note of the matches that are over."""
        self._bar.update(over - self._bar.pos)
        self.over = over
        now = time.monotonic()
        if self._before is None:
            self._before, self._began = over, now
            if over:
                click.echo(f"{over} of {total} matches are there already", err=True)
        elif not self._terminal and (now - self._told >= REPORT_EVERY_S or over == total):
            self._told = now
            left = (now - self._began) / max(1, over - self._before) * (total - over)
            click.echo(f"{over} of {total} matches, about {left:.0f} s to go", err=True)

    def spent_so_far(self, spent: Spent) -> None:
        """Say what asking models has taken: beside the bar, or in a line."""
        cost = f", US${spent.cost:.4g}" if spent.cost else ""
        taken = f"{spent.tokens:,} tokens{cost}"
        if self._terminal:
            self._bar.label = f"matches ({taken})"
            self._bar.render_progress()
        else:
            click.echo(f"{self.over} of {self._bar.length} matches; {taken} so far", err=True)


def _conclude(results: Results, out: Path) -> None:
    """Say what was found."""
    from spectator.evaluation.report import conclusions
    from spectator.evaluation.schedule import REPORT

    width = max(len(one.name) for one in results.captains)
    for one in results.captains:
        share = f"{100 * one.share.value:5.1f} %  ({100 * one.share.low:.1f} to {100 * one.share.high:.1f})"
        place, rating = ("", "") if one.rating is None else (one.rank, f"{one.rating.value:+.0f}")
        click.echo(f"{place:>2}  {one.name:{width}}  {rating:>5}  {share}")
    for one in results.captains:
        if one.source == "model":
            took = f"{one.asked.tokens:,} tokens, US${one.asked.cost:.4g}"
            click.echo(f"{one.name} made {one.asked.decisions} decisions: {took}")
    for line in conclusions(results):
        click.echo(line)
    click.echo(out / REPORT)
