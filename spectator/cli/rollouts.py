"""The commands ``spectator rollouts``: run many episodes, and export them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from spectator.cli.export import check_out, format_options, write_export
from spectator.cli.options import (
    RUN_FOLDER,
    is_in_database,
    journal_options,
    parse_options,
    recorded_run,
    required_run_name,
    run_place,
    seconds_option,
    server_url,
    spending_options,
    world_options,
)
from spectator.cli.rollouts_run import (
    RunLog,
    carry_out,
    conclude,
    exit_code,
    handler_of,
    play_as_worker,
    play_folder,
    play_runs,
    run_busily,
    sink_of,
)
from spectator.errors import ON_INVALID
from spectator.exports.formats import ExportFormat, ExportSource
from spectator.process_environment import read_captain

if TYPE_CHECKING:
    from spectator.journal.coordination import FleetRow
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.fleet import FleetReport, OnBegin, Worker
    from spectator.rollouts.fleet_plan import FleetPlan
    from spectator.rollouts.request import RolloutRequest
from spectator.cli.rollouts_status import failures, status


@asynccontextmanager
async def _recorded(
    folder: Path | None, journal: str | None, run_name: str | None
) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """Open the record of a run in a folder or a database."""
    from spectator.cli.options import recorded_journal
    from spectator.rollouts.request import read_request

    if folder is None:
        async with recorded_run(journal, run_name) as found:
            yield found
        return
    request, _ = read_request(folder)
    async with recorded_journal(folder) as opened:
        yield request, opened


@click.command("export")
@RUN_FOLDER
@journal_options
@format_options
def export_rollouts(
    folder: Path | None,
    journal: str | None,
    run_name: str | None,
    form: ExportFormat,
    out: Path,
    advantages: bool,
    notes: Path | None,
    min_own_share: float,
) -> None:
    """Export the episodes of a run for trainers; safe while it runs.

    A group is complete when each of its members has a verdict, and open while one has yet to be played.

    \b
    FORMATS

    \b
    Example: spectator rollouts export runs/first --format groups --advantages --out groups.jsonl
    Example: spectator rollouts export runs/first --format tokens --out tokens.parquet
    """
    from spectator.errors import RETRIED_FAILURES
    from spectator.exports.groups import GroupRule
    from spectator.journal.contract import EpisodeFilter, every_episode

    check_out(form, out)
    place = run_place(folder, journal, run_name)

    async def write() -> None:
        async with _recorded(place, journal, run_name) as (request, opened):
            rule = GroupRule(request.group_size, request.attempts, RETRIED_FAILURES)
            wanted = EpisodeFilter(run_id=run_name if place is None else None, limit=1000)
            chosen = [one for one in await every_episode(opened, wanted) if form.takes(one)]
            if not chosen:
                raise click.ClickException("no episode of the run has begun")
            source = ExportSource(
                opened, chosen, advantages=advantages, min_own_share=min_own_share, rule=rule, notes=notes
            )
            await write_export(form, source, out)

    asyncio.run(write())


@click.command()
@RUN_FOLDER
@journal_options
@click.option("--sink", metavar="MODULE:NAME", required=True, help="Class or function that makes the sink.")
def send(folder: Path | None, journal: str | None, run_name: str | None, sink: str) -> None:
    """Pass all ended sessions of a run on to a sink, such as those that it missed; safe while it runs.

    \b
    Exit code: 0 all sessions reached the sink, 1 some did not.
    \b
    Example: spectator rollouts send runs/first --sink my_store:Store
    """
    from spectator.rollouts.sessions import DataManager
    from spectator.rollouts.sinks import import_sink, send_sessions

    make, place = import_sink(sink), run_place(folder, journal, run_name)

    async def pass_on() -> str | None:
        async with _recorded(place, journal, run_name) as (request, opened):
            return await send_sessions(DataManager(request, opened), make)

    if (missed := asyncio.run(pass_on())) is not None:
        raise click.ClickException(missed)


@click.group()
def rollouts() -> None:
    """Play many episodes with a model, for training data."""
    if "" not in sys.path:
        sys.path.insert(0, "")  # so that module:name is found in the current directory


rollouts.add_command(export_rollouts)
rollouts.add_command(status)
rollouts.add_command(failures)
rollouts.add_command(send)


@rollouts.command()
@click.option(
    "--env", "environment", required=True,
    help="World to play; or MODULE:NAME, a class with get_task_prompt() and step(text); or the address of "
    "one on another server: http://HOST:PORT/ENV_NAME of a pooled rollout server, openenv+ws://HOST:PORT of "
    "an OpenEnv server.",
)  # fmt: skip
@click.option(
    "--captain",
    help="Model captain of the captains file, such as llm:NAME, instead of --base-url and --model; other "
    "options that are given replace its fields.",
)
@click.option("--base-url", help="The model's endpoint, without /chat/completions.")
@click.option("--model", help="The model's name at its endpoint.")
@click.option("--episodes", type=click.IntRange(min=1), required=True, help="Episodes in all.")
@click.option("--concurrency", type=click.IntRange(1, 4096), default=64, help="Episodes at once.")
@click.option("--group-size", type=click.IntRange(1, 4096), default=1, help="Episodes per task.")
@click.option("--max-turns", type=click.IntRange(min=1), help="Actions after which an episode is truncated.")
@click.option(
    "--message-cut", type=click.IntRange(min=0), default=0,
    help="Newest exchanges to send, besides system message and task; 0 sends all since the "
    "conversation began.",
)  # fmt: skip
@click.option(
    "--history-tokens", type=click.IntRange(min=256), default=2000,
    help="Tokens of past turns at which a new conversation starts, with the last decisions repeated.",
)  # fmt: skip
@world_options
@click.option(
    "--opponent", help="Preset in the other seats; self: the model, which is then trained in every seat."
)
@click.option("--pack", default="default", help="Evaluation pack.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=1, help="Seed from which the tasks' seeds are derived."
)
@click.option("--attempts", type=click.IntRange(1, 100), default=3, help="Most attempts at an episode.")
@click.option(
    "--on-invalid", type=click.Choice(ON_INVALID), default=ON_INVALID[0],
    help="What an invalid answer does after all retries: penalize ends the episode with --invalid-reward and "
    "trains on the answer; mask ends it with the reward so far, without the answer; end leaves no verdict; "
    "fallback lets a scripted captain decide, which is never credited.",
)  # fmt: skip
@click.option(
    "--invalid-retries", type=click.IntRange(0, 10), default=1,
    help="Retries in a row after an invalid answer.",
)  # fmt: skip
@click.option(
    "--invalid-reward", type=float, default=0.0,
    help="With --on-invalid penalize: the reward of the episode.",
)  # fmt: skip
@click.option("--style", type=click.Choice(["tools", "json"]), default="tools")
@click.option("--temperature", type=click.FloatRange(0, 2))
@click.option("--max-answer-tokens", type=click.IntRange(16, 131_072), default=1024)
@click.option(
    "--tool-choice", type=click.Choice(["auto", "required"]),
    help="Sent with the tools of --style tools; omitted by default.",
)  # fmt: skip
@click.option(
    "--constraint", type=click.Choice(["auto", "none", "json_object", "json_schema", "tools"]),
    default="none",
    help="How answers are constrained to the legal actions: docs/captains.md.",
)  # fmt: skip
@click.option(
    "--prompt", type=click.Choice(["full", "short"]), default="full",
    help="Size of the prompt; short is for small models.",
)  # fmt: skip
@click.option(
    "--extra", multiple=True, metavar="NAME=VALUE", callback=parse_options,
    help="Further field of each request, repeatable, such as top_p=0.9, top_k=20 or enable_thinking=false; a "
    "value may be JSON.",
)  # fmt: skip
@click.option(
    "--by-session", is_flag=True,
    help="Append the episode's id to --base-url, for endpoints that keep a session per episode.",
)  # fmt: skip
@click.option(
    "--call-timeout", "--timeout", "timeout_s", type=click.FloatRange(1, 900), default=300.0,
    help="Seconds for one decision of the model, including waits and retries.",
)  # fmt: skip
@seconds_option("--episode-timeout", "episode_s", 21_600.0, "Seconds for one episode.")
@seconds_option("--env-timeout", "env_s", 30.0, "Seconds for one step of the environment.")
@seconds_option("--env-start-timeout", "env_start_s", 60.0, "Seconds for an environment to begin.")
@seconds_option(
    "--env-wait", "env_wait_s", 300.0,
    "Seconds that the environments' server may be unreachable or full before the run is halted.",
    zero=True,
)  # fmt: skip
@seconds_option(
    "--model-wait", "model_wait_s", 300.0,
    "Seconds that the model's endpoint may be unreachable before the run is halted; one that never "
    "answered halts it sooner.",
    zero=True,
)  # fmt: skip
@seconds_option(
    "--startup-jitter", "startup_jitter_s", 2.0,
    "Seconds over which the first requests to the model are spread.", zero=True,
)  # fmt: skip
@click.option(
    "--stepper", type=click.Choice(["inline", "thread"]), default="inline",
    help="Where a world of the catalogue runs: with the driver, or on a separate thread, which worlds that "
    "block need.",
)  # fmt: skip
@click.option(
    "--tokens", is_flag=True, help="Ask for token ids and log probabilities, as vLLM and SGLang give them."
)
@click.option(
    "--token-in", is_flag=True,
    help="Send prompts as token ids, so that each contains exactly the tokens that were sampled; needs vLLM, "
    "--tokens and --style json.",
)  # fmt: skip
@click.option("--api-key-env", help="Name of the variable that holds the endpoint's key.")
@click.option(
    "--experiences", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON list of experiences that may be added to prompts.",
)  # fmt: skip
@click.option(
    "--handler", type=click.Choice(["none", "template", "ucb", "contextual-ucb"]), default="none",
    help="How an experience is chosen.",
)  # fmt: skip
@click.option(
    "--sink", metavar="MODULE:NAME",
    help="Class or function that makes a sink: create_session, record_step and close get a copy of each "
    "session that has ended.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(0, 1024), default=0,
    help="Worker processes, which share the concurrency; 0 plays in this process.",
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("rollouts"),
    help="Folder of the record.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Require an existing run to resume; without it, the same command resumes or begins.",
)
@journal_options
@click.option(
    "--max-in-flight", type=click.IntRange(min=0), default=0,
    help="For a run in a database: episodes at once over all workers; 0 = no limit.",
)  # fmt: skip
@spending_options("the whole run")
def run(**given: Any) -> None:
    """Play many episodes with a model, and record what a trainer needs.

    Everything is recorded in the folder's journal: after a crash or an interrupt, the same command resumes.
    The first Ctrl-C lets the running episodes finish; the second leaves them to be resumed later. With
    --journal and --run the run is in that database instead; spectator rollouts worker joins it.

    \b
    Exit code: 0 every episode has a verdict, 1 some have none, or the model made no decision itself, 3 the
    run was halted, 130 interrupted, 143 terminated.
    \b
    Example: spectator rollouts run --env counting --base-url http://localhost:8001/v1 --model my-model \\
             --episodes 512 --concurrency 64 --group-size 8 --out runs/first
    """
    from spectator.rollouts.request import read_request

    out: Path = given["out"]
    plan = _plan(_request(given), given)
    if is_in_database(given["journal"], given["run_name"]):
        return _run_in_database(plan, given)
    if given["max_in_flight"]:
        raise click.UsageError("--max-in-flight is for runs in a database; here --concurrency is the limit")
    if given["resume"]:
        read_request(out)
    handler_of(plan, out)  # fail before anything is written
    sink_of(plan)
    report, interrupted = run_busily(_run_in_folder(plan, given))
    conclude(report, str(out))
    sys.exit(exit_code(report, interrupted))


async def _run_in_folder(plan: FleetPlan, given: Mapping[str, Any]) -> tuple[FleetReport, bool]:
    from spectator.cli.rollouts_view import FleetView

    async def play(begin: OnBegin) -> FleetReport:
        return await play_folder(
            plan, given["out"], workers=given["workers"], concurrency=given["concurrency"], begin=begin
        )

    view = FleetView(plan.request, given["env_wait_s"], given["model_wait_s"])
    return await carry_out(play, view, RunLog(given["out"] / "rollouts.log"))


def _run_in_database(plan: FleetPlan, given: Mapping[str, Any]) -> None:
    """Begin or resume a run in a database, and exit with the command's exit code."""
    from spectator.rollouts.fleet import begin_run
    from spectator.rollouts.fleet_plan import find_rows

    name = required_run_name(given["run_name"])
    for flag, unset in (("handler", "none"), ("experiences", None), ("sink", None), ("workers", 0)):
        if given[flag] != unset:
            hint = "; start any number of `spectator rollouts worker` processes" if flag == "workers" else ""
            raise click.UsageError(f"--{flag} is for runs in a folder{hint}")

    async def find(worker: Worker) -> Sequence[FleetRow]:
        if given["resume"]:
            await find_rows(worker.journal, name)
        return [await begin_run(name, plan, worker)]

    sys.exit(run_busily(play_runs(server_url(given["journal"]), given["concurrency"], find)))


@rollouts.command()
@RUN_FOLDER
@journal_options
@click.option(
    "--concurrency", type=click.IntRange(1, 4096), default=64,
    help="Episodes at once in this process.",
)  # fmt: skip
@click.option("--name", hidden=True, help="Name of this process in the journal of a folder.")
def worker(
    folder: Path | None, journal: str | None, run_name: str | None, concurrency: int, name: str | None
) -> None:
    """Join a run stored in PostgreSQL; any number of workers can run in parallel, on any machine.

    It needs the journal's URL, and the endpoint's key in the variable that the run names. Without --run it
    plays every unfinished run of the journal, oldest first. Ctrl-C and exit codes work as for run. To join a
    run in a folder, repeat the command that began it.

    \b
    Example: SPECTATOR_JOURNAL_URL=postgresql://... spectator rollouts worker --run first --concurrency 32
    """
    from spectator.rollouts.fleet_plan import find_rows

    if folder is not None:
        if name is None:
            raise click.UsageError("to join a run in a folder, repeat the command that began it")
        sys.exit(run_busily(play_as_worker(folder, concurrency, name)))
    url = server_url(journal)
    sys.exit(run_busily(play_runs(url, concurrency, lambda worker: find_rows(worker.journal, run_name))))


def _plan(request: RolloutRequest, given: Mapping[str, Any]) -> FleetPlan:
    from spectator.policies.spending import Caps
    from spectator.rollouts.fleet_plan import Deadlines, FleetPlan

    if given["experiences"] is not None and given["handler"] == "none":
        raise click.UsageError("--experiences needs --handler, which chooses one of them")
    if given["experiences"] is None and given["handler"] != "none":
        raise click.UsageError(f"--handler {given['handler']} needs --experiences FILE")
    times = ("episode_s", "env_s", "env_start_s", "env_wait_s", "model_wait_s", "startup_jitter_s")
    return FleetPlan.of(
        request,
        deadlines=Deadlines(**{name: given[name] for name in times}),
        whole=Caps(given["max_tokens"] or 0, given["max_cost"] or 0.0),
        stepper=given["stepper"],
        max_in_flight=given["max_in_flight"],
        handler=given["handler"],
        experiences=str(given["experiences"] or ""),
        sink=given["sink"] or "",
    )


_OF_MODEL: Final = {
    "base_url": "base_url", "model": "model", "by_session": "by_session", "api_key_env": "api_key_env",
    "style": "style", "temperature": "temperature", "max_answer_tokens": "max_tokens",
    "tool_choice": "tool_choice", "timeout_s": "timeout_s", "tokens": "tokens",
    "history_tokens": "history_tokens", "extra": "extra", "constraint": "constraint",
    "prompt": "prompt",
}  # fmt: skip
"""Options that are fields of the model, with their names there."""


def _model(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the model: those of ``--captain``, replaced by what the command line gives."""
    if given["captain"] is None:
        if absent := [flag for flag in ("base_url", "model") if not given[flag]]:
            flags = " and ".join(f"--{flag.replace('_', '-')}" for flag in absent)
            raise click.UsageError(f"set {flags}, or --captain")
        fields = {name: given[flag] for flag, name in _OF_MODEL.items()}
        return {**fields, "label": given["model"], "stream": False, "context_tokens": 1_000_000}
    name: str = given["captain"]
    captain = read_captain(name if name.startswith("llm:") else f"llm:{name}").model_dump(mode="json")
    source = click.get_current_context().get_parameter_source
    stated = {
        name: given[flag]
        for flag, name in _OF_MODEL.items()
        if source(flag) not in (None, ParameterSource.DEFAULT)
    }
    extra = {**captain["extra"], **stated.pop("extra", {})}
    return {**captain, **stated, "extra": extra, "stream": False}


def _request(given: Mapping[str, Any]) -> RolloutRequest:
    from pydantic import ValidationError

    from spectator.errors import InvalidRequest, field_errors
    from spectator.rollouts.request import RolloutRequest

    model = _model(given)
    fields = (
        "environment", "options", "opponent", "pack", "seed", "episodes", "group_size", "max_turns",
        "message_cut", "attempts", "on_invalid", "invalid_retries", "invalid_reward", "token_in",
    )  # fmt: skip
    asked = {name: given[name] for name in fields if given[name] is not None}
    try:
        return RolloutRequest.model_validate({**asked, "model": model})
    except ValidationError as error:
        raise InvalidRequest(field_errors(error.errors())) from error
