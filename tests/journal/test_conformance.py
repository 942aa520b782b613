"""What every store of the journal must do with model calls, sealed truth and runs; see ``STORES``."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from spectator.errors import EpisodeNotFound, JournalError, SequenceConflict, TruthSealed
from spectator.events import Event, RecordedEvent, record
from spectator.journal.contract import Attachments, EpisodeFilter, Journal, RecordedCall, truth_digest
from spectator.journal.sql_journal import SqlJournal
from spectator.llm.chat import Conversation, FrozenMessage, FrozenPrefix
from tests.journal.calls import TOOLS, call_of, decided, reply, user
from tests.journal.records import ended, execute, run, said, seqs, started, url_of
from tests.postgres import Cluster

Opens = Callable[[Path], Awaitable[Journal]]


async def new_sqlite(folder: Path) -> Journal:
    return await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")


STORES: dict[str, Opens] = {"sqlite": new_sqlite}
"""How each embedded store is opened, again and again, on the same folder. A new store joins here."""


@pytest.fixture(params=[*STORES, "postgresql"])
def opens(request: pytest.FixtureRequest) -> Iterator[Opens]:
    """How the store of this run of the test is opened, again and again, on the same folder."""
    if request.param in STORES:
        yield STORES[request.param]
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("journal_template")

    async def on_server(folder: Path) -> Journal:
        return await SqlJournal.open(cluster.url(cluster.database_of(folder, template)))

    yield on_server
    cluster.give_back()


both = pytest.mark.usefixtures("each_store")

TRUTH = '{"mass_gev":91.2,"“name”":"Z"}'
SYSTEM = {"role": "system", "content": "Décide. \U0001f3cf"}


def end_with(truth: str | None, episode_id: str, seq: int) -> RecordedEvent:
    data = {**ended(episode_id, seq).event.data, "truth": None if truth is None else truth_digest(truth)}
    return record(Event(episode_id, "e1", seq, "2026-11-21T06:00:00.000Z", seq, "episode.ended", data))


async def read_calls(journal: Journal, episode_id: str = "ep-1") -> list[RecordedCall]:
    return [one async for one in journal.calls(episode_id)]


def plain(calls: Iterable[Any]) -> list[dict[str, Any]]:
    """Calls as values that can be compared, whatever kind of sequence they hold."""
    found = []
    for one in calls:
        call = one.call if isinstance(one, RecordedCall) else one
        fields = {field.name: getattr(call, field.name) for field in dataclasses.fields(call)}
        runs = [tuple(run) for run in call.weight_versions]
        found.append(fields | {"messages": [*call.messages], "tools": [*call.tools], "weight_versions": runs})
    return found


async def add(journal: Journal, seq: int, *calls: Any, actor: str = "home", long: bool = False) -> None:
    event = decided("ep-1", seq, calls, actor=actor, long=long)
    await journal.append([event], attachments=Attachments(calls=[calls]))


async def test_calls_come_back_whole_in_order_and_after_another_opening(opens: Opens, tmp_path: Path) -> None:
    first = call_of([SYSTEM, user("1?")], prompt=[1, 2, 3], tokens=[4, 5], logprobs=[-0.5, -1e-300])
    second = call_of(
        [*first.messages, {"role": "assistant", "content": "one"}, user("2?")],
        "x" * 50_000,
        prompt=[1, 2, 3, 4, 5, 6, 2**40],
        tokens=[7],
        logprobs=[-0.1],
        weight_versions=[("v1", 1), ("v2", 0)],
        about={"model": "m", "temperature": 0.7},
        measured={"latency_s": 0.25},
    )
    failed = call_of([SYSTEM, user("other")], None, tools=())

    journal = await opens(tmp_path)
    await journal.append([started("ep-1")])
    await add(journal, 2, first)
    await add(journal, 3, failed, second, long=True)
    await journal.append([said("ep-1", 4)])
    found = await read_calls(journal)
    assert [(one.decided.seq, one.place) for one in found] == [(2, 0), (3, 0), (3, 1)]
    assert plain(found) == plain([first, failed, second])
    assert [one.exchange["digest"] for one in found] == [
        one.call.digest(one.exchange["request"]) for one in found
    ]
    await journal.aclose()
    again = await opens(tmp_path)
    await add(again, 5, second, actor="away")
    assert plain(await read_calls(again)) == plain([first, failed, second, second])
    assert await read_calls(again, "nobody") == []
    await again.aclose()


def conversations() -> Any:
    """Prompts that grow, are cut, and begin anew, for two actors."""
    text = st.sampled_from([user(text) for text in ("a", "b", "c" * 300, "é\ud800", "{}")])
    ids = st.lists(st.sampled_from([0, 1, 2**31, 2**62]), max_size=4)
    call = st.tuples(st.integers(0, 4), st.lists(text, max_size=3), st.none() | ids, st.none() | ids)
    return st.lists(st.tuples(st.sampled_from(["home", "away"]), call), min_size=1, max_size=9)


@given(asked=conversations())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_conversation_is_read_as_it_was_shown(
    opens: Opens, tmp_path_factory: pytest.TempPathFactory, asked: list[Any]
) -> None:
    last: dict[str, Any] = {"home": call_of([]), "away": call_of([])}
    made = []
    for actor, (kept, new, prompt, tokens) in asked:
        before = last[actor]
        ids = None if prompt is None else [*list(before.prompt_token_ids or ())[:kept], *prompt]
        call = call_of([*before.messages[:kept], *new], prompt=ids, tokens=tokens, tools=TOOLS[: kept % 2])
        last[actor] = call
        made.append((actor, call))

    async def scenario() -> None:
        journal = await opens(tmp_path_factory.mktemp("conversation"))
        await journal.append([started("ep-1")])
        for seq, (actor, call) in enumerate(made, 2):
            await add(journal, seq, call, actor=actor)
        assert plain(await read_calls(journal)) == plain(call for _, call in made)
        await journal.aclose()

    run(scenario())


async def test_a_conversation_that_grows_by_settled_messages_is_read_as_it_was_shown(
    opens: Opens, tmp_path: Path
) -> None:
    grown: list[Any] = [FrozenMessage(user("rules"))]
    beginning, made = FrozenPrefix(), []
    for number in range(6):
        asked = user(f"{number // 2}")  # a question may be asked twice
        made.append(call_of(Conversation([*grown, asked], len(grown), beginning)))
        grown = [*grown, FrozenMessage(asked), FrozenMessage(user("said"))]
        if number == 3:
            grown, beginning = grown[:2], FrozenPrefix()

    journal = await opens(tmp_path)
    await journal.append([started("ep-1")])
    for seq, call in enumerate(made, 2):
        await add(journal, seq, call)
    assert plain(await read_calls(journal)) == plain(made)
    await journal.aclose()


@both
async def test_calls_of_many_episodes_are_written_by_one_statement_a_table(tmp_path: Path) -> None:
    written: list[str] = []

    journal = await SqlJournal.open(url_of(tmp_path))
    names = [f"ep-{number}" for number in range(9)]
    await asyncio.gather(*(journal.append([started(name)]) for name in names))
    busy, free = threading.Event(), threading.Event()

    def hold(connection: Any) -> None:
        event.listen(connection.engine, "before_cursor_execute", note)
        busy.set()
        free.wait()

    def note(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        written.append(statement)

    held = asyncio.ensure_future(journal.transact(hold))
    await asyncio.to_thread(busy.wait)
    appends = []
    for name in names:
        calls = [call_of([user("rules"), user(name)])]
        made = Attachments(calls=[calls])
        appends.append(asyncio.ensure_future(journal.append([decided(name, 2, calls)], attachments=made)))
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(held, *appends)
    for name in names:
        (call,) = await read_calls(journal, name)
        assert call.call.messages[1] == user(name)
    await journal.aclose()
    tables = [one.split()[2] for one in written if one.startswith("INSERT INTO")]
    assert sorted(tables) == ["calls", "events", "messages"]


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"role": "user", "content": value}


async def test_what_is_wrong_beside_an_event_leaves_nothing_of_it(opens: Opens, tmp_path: Path) -> None:
    call = call_of([user("?")])
    event = decided("ep-1", 2, [call])
    wrong = [
        ([event], Attachments(calls=[[call], [call]])),
        ([event], Attachments(calls=[[call, call]])),
        ([event], Attachments(calls=[[call_of([user(float("nan"))])]])),  # type: ignore[arg-type]
        ([event], Attachments(calls=[[call_of([{"content": object()}])]])),
        ([event], Attachments(calls=[[call_of([nested(10_000)])]])),
        ([event], Attachments(calls=[["no call"]])),  # type: ignore[list-item]
        ([event], Attachments(truth=TRUTH)),
        ([end_with("{}", "ep-1", 2)], Attachments(truth=TRUTH)),
    ]

    journal = await opens(tmp_path)
    await journal.append([started("ep-1")])
    for events, attachments in wrong:
        with pytest.raises(JournalError, match="cannot be written"):
            await journal.append(events, attachments=attachments)
    assert seqs(await journal.read("ep-1")) == [1]
    assert await read_calls(journal) == []
    await add(journal, 2, call)
    with pytest.raises(SequenceConflict):
        await add(journal, 2, call_of([user("another")]))
    assert plain(await read_calls(journal)) == plain([call])
    await journal.aclose()


async def test_the_truth_is_sealed_until_the_end_and_there_with_it(opens: Opens, tmp_path: Path) -> None:
    journal = await opens(tmp_path)
    await journal.append([started("ep-1"), said("ep-1", 2)])
    with pytest.raises(TruthSealed, match="sealed until it has ended"):
        await journal.truth("ep-1")
    with pytest.raises(EpisodeNotFound):
        await journal.truth("nobody")
    await journal.append([end_with(TRUTH, "ep-1", 3)], attachments=Attachments(truth=TRUTH))
    assert await journal.truth("ep-1") == TRUTH
    assert TRUTH not in "".join(one.text for one in await journal.read("ep-1"))
    await journal.append([started("ep-2"), ended("ep-2", 2)])
    assert await journal.truth("ep-2") is None
    await journal.aclose()


def started_for(episode_id: str, **more: Any) -> RecordedEvent:
    event = started(episode_id).event
    return record(dataclasses.replace(event, data={**event.data, **more}))


async def test_runs_groups_and_attempts_are_found(opens: Opens, tmp_path: Path) -> None:
    journal = await opens(tmp_path)
    for number in range(6):
        group, attempt = f"g{number // 2}", 1 + number % 2
        first = started_for(f"ep-{number}", run_id="run-1", group_id=group, attempt=attempt)
        await journal.append([first])
    await journal.append([started("ep-9")])

    async def listed(**wanted: Any) -> list[str]:
        return [one.episode_id for one in await journal.episodes(EpisodeFilter(**wanted))]

    assert len(await listed(run_id="run-1")) == 6
    assert await listed(run_id="run-2") == []
    assert await listed(group_id="g1") == ["ep-3", "ep-2"]
    assert await listed(run_id="run-1", attempt=2) == ["ep-5", "ep-3", "ep-1"]
    one, other = await journal.episode("ep-3"), await journal.episode("ep-9")
    assert one is not None and other is not None
    assert (one.run_id, one.group_id, one.attempt) == ("run-1", "g1", 2)
    assert (other.run_id, other.group_id, other.attempt) == (None, None, None)
    await journal.aclose()


@both
async def test_a_message_is_stored_once_however_often_it_is_shown(tmp_path: Path) -> None:
    """Sixty turns of a growing conversation: rows and bytes grow with the turns, not with their square."""

    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1")])
    shown: list[dict[str, Any]] = [SYSTEM]
    tokens: list[int] = []
    for turn in range(60):
        shown = [*shown, user(f"question {turn} " + "x" * 900)]
        tokens = [*tokens, *range(turn, turn + 300)]
        await add(journal, 2 + turn, call_of([dict(one) for one in shown], prompt=tokens, tokens=[turn]))
        shown, tokens = [*shown, {"role": "assistant", "content": f"answer {turn}"}], [*tokens, turn]
    found = await read_calls(journal)
    assert list(found[-1].call.messages) == shown[:-1]
    assert found[-1].call.prompt_token_ids == array("q", tokens[:-1])
    await journal.aclose()
    assert execute(tmp_path, "SELECT count(*) FROM messages") == [(1 + 2 * 60 - 1 + len(TOOLS),)]
    ((size,),) = execute(tmp_path, "SELECT sum(length(messages) + length(prompt_token_ids)) FROM calls")
    assert size < 60 * (301 * 4 + 3 * 32 + 8)


@both
@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        ('UPDATE messages SET body = CAST(\'{"role":"user"}\' AS BLOB)', "was changed after"),
        ("UPDATE messages SET body = x'7801ff'", "cannot be expanded"),
        ("DELETE FROM messages", "is missing"),
        ("UPDATE calls SET kept = 7", "the previous prompt is missing"),
        ("UPDATE calls SET prompt_kept = 9", "the previous tokens are missing"),
        ("UPDATE calls SET token_ids = x'40'", "not packed numbers"),
        ("UPDATE calls SET token_ids = x'6901'", "call 0 of event 2"),
        ("UPDATE calls SET beside = '{}'", "call 0 of event 2"),
        ("UPDATE calls SET place = 1", "call 1 of event 2"),
        ("UPDATE calls SET seq = 1", "is episode.started, not a decision"),
        ("UPDATE calls SET seq = 77", "its event is missing"),
    ],
)
async def test_calls_that_are_damaged_are_refused_with_the_reason(
    tmp_path: Path, tamper: str, says: str
) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    await journal.append([started("ep-1")])
    await add(journal, 2, call_of([user("?")], prompt=[1], tokens=[2]))
    await journal.aclose()
    execute(tmp_path, tamper)
    journal = await SqlJournal.open(url_of(tmp_path))
    with pytest.raises(JournalError, match=says):
        await read_calls(journal)
    assert seqs(await journal.read("ep-1")) == [1, 2], "events are served all the same"
    await journal.aclose()


@both
async def test_a_damaged_truth_is_refused(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    events = [started("ep-1"), end_with(TRUTH, "ep-1", 2)]
    await journal.append(events, attachments=Attachments(truth=TRUTH))
    await journal.aclose()
    execute(tmp_path, "UPDATE truths SET body = x'00'")
    journal = await SqlJournal.open(url_of(tmp_path))
    with pytest.raises(JournalError, match="the truth of ep-1 cannot be read"):
        await journal.truth("ep-1")
    await journal.aclose()


def test_tokens_are_arrays_of_eight_bytes() -> None:
    with pytest.raises(ValueError, match="token_ids must be an array of type 'q'"):
        dataclasses.replace(call_of([]), token_ids=array("i", [1]))
    assert reply("x") == call_of([], "x").reply
