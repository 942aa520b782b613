"""Many matches at once in worker processes, with networks in one central process.

Workers step the worlds and hold the sentences in progress; the central process chooses among the allowed
tokens.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from threadpoolctl import threadpool_limits

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.laws import SIDES
from spectator.environments.cricket.recipe.examples import options_of_match, plain_options, scripted
from spectator.environments.cricket.trained.network import Tokenizer
from spectator.environments.cricket.trained.perception import Sight
from spectator.environments.cricket.trained.speech import ORDER_PARTS, SpokenOrder, calls_of
from spectator.environments.world import derive_seed
from spectator.llm.chat import ChatAnswer, ChatRequest, Message
from spectator.llm.exchanges import call_answered
from spectator.model_calls import ModelCall
from spectator.policies.turns import model_decision
from spectator.training.played_episode import EpisodeTurns, SelfPlayedEpisode


class MatchJob(NamedTuple):
    """One match to play.

    Args:
        options: Its complete options.
        seats: What decides for each side: the number of a network, or the name of a captain.
        recorded: Whether its end contains the whole match; only if networks have both seats.
    """

    key: Any
    seed: int
    options: Mapping[str, Any]
    seats: Mapping[str, int | str]
    recorded: bool = False


class Ask(NamedTuple):
    """A decision for a network.

    Args:
        number: Its number within the worker.
        acts: Whether the choice has an effect.
    """

    number: int
    network: int
    role: str
    prompt: list[int]
    said: list[int]
    allowed: list[int]
    acts: bool


class MatchEnd(NamedTuple):
    """A match that ended.

    Args:
        key: See :class:`MatchJob`.
        parts: The parts of its score.
        played: The whole match, if it is recorded.
    """

    key: Any
    parts: dict[str, float]
    played: SelfPlayedEpisode | None


class Round(NamedTuple):
    """A worker's report at the start of a round.

    Args:
        asks: Decisions due, one of each match.
        worth: Values of earlier decisions to their sides, in win chances, by number.
        over: Matches that ended.
    """

    asks: list[Ask]
    worth: list[tuple[int, float]]
    over: list[MatchEnd]


class Drawn(NamedTuple):
    """The tokens chosen for the open asks of a round, in order.

    Args:
        chances: Log probability of each.
        version: Version of the weights that chose them.
    """

    tokens: list[int]
    chances: list[float]
    version: str


MODEL: Final = "Cricket captain in training"
"""Name of the model in the record."""
_SLOT: Final = re.compile(r"\b[bf]\d{1,2}\b")


@dataclass
class SpokenAnswer:
    """An answer of the network for the record.

    Args:
        prompt: Tokens of the situation.
        chances: Log probability of each token; the last tokens that had to follow may be missing.
        version: Version of the weights; empty if they were not asked.
    """

    prompt: list[int]
    chances: list[float] = field(default_factory=list)
    version: str = ""

    def call(self, speech: SpokenOrder) -> ModelCall:
        """Return the model call of a finished sentence; names replace slots in its text."""
        sight, count = speech.sight, len(speech.ids)
        names = sight.shown_names()
        players = ", ".join(f"{slot} {name}" for slot, name in sight.names.items())
        messages: list[Message] = [
            {"role": "system", "content": f"Players by slot: {players}."},
            {"role": "user", "content": sight.text()},
        ]
        answer = ChatAnswer(
            text=_SLOT.sub(lambda slot: names.get(slot[0], slot[0]), speech.text),
            finish_reason="stop",
            token_ids=array("q", speech.ids),
            prompt_token_ids=array("q", self.prompt),
            logprobs=array("d", self.chances + [0.0] * (count - len(self.chances))),
            weight_versions=[(self.version, count)] if self.version else [],
        )
        return replace(call_answered(ChatRequest(model=MODEL, messages=messages), answer), measured={})


class FleetMatch:
    """One match in a worker."""

    def __init__(self, job: MatchJob, numbers: Iterator[int]) -> None:
        self.job, self._numbers = job, numbers
        self._world = CricketEnvironment()
        self.observation = self._world.reset(seed=job.seed, episode_id="fleet", options=job.options)
        self._others = {
            side: scripted(name, derive_seed(job.seed, "policy", side))
            for side, name in job.seats.items()
            if isinstance(name, str)
        }
        self._open: dict[str, tuple[int, float]] = {}
        self.speech: SpokenOrder | None = None
        self._answer = SpokenAnswer([])
        self._turns: EpisodeTurns | None = None
        if job.recorded:
            self._turns = EpisodeTurns(WORLD, self._world, self.observation, job.options)

    def next_ask(self, tokenizer: Tokenizer, worth: list[tuple[int, float]]) -> Ask | None:
        """Play until a network must decide; return ``None`` when the match is over."""
        while not self.observation.done:
            side = self.observation.actor
            assert side is not None
            if side in self._others:
                self.act(self._others[side].choose(self.observation).action)
                continue
            self._settle(side, worth)
            sight = Sight(self.observation.content, [one["tool"] for one in self.observation.legal_actions])
            speech = SpokenOrder(sight, tokenizer)
            prompt = tokenizer.encode(sight.text())
            self._answer = SpokenAnswer(prompt)
            if not speech.allowed:
                self._finish(speech)
                continue
            self.speech, number = speech, next(self._numbers)
            self._open[side] = (number, self._paid(side))
            network = int(self.job.seats[side])
            return Ask(number, network, sight.role, prompt, [*speech.ids], speech.allowed, _acts(speech))
        for side in SIDES:
            self._settle(side, worth)
        return None

    def take(self, token: int, chance: float, version: str) -> tuple[list[int], list[int], bool]:
        """Speak a token; see :meth:`Answering.receive` for the result."""
        speech = self.speech
        assert speech is not None
        before = len(speech.ids)
        speech.take(token)
        self._answer.chances += [0.0] * (before - len(self._answer.chances)) + [chance]
        self._answer.version = version
        return speech.ids[before:], speech.allowed, _acts(speech)

    def finish(self) -> None:
        """Carry out the sentence."""
        assert self.speech is not None
        self._finish(self.speech)

    def played(self) -> SelfPlayedEpisode | None:
        """Return the whole match, if it is recorded."""
        return None if self._turns is None else self._turns.played(self.job.seed)

    def _finish(self, speech: SpokenOrder) -> None:
        tool, arguments = calls_of(speech.sight, speech.order or {})[-1]
        action = {"tool": tool, "arguments": arguments}
        if self._turns is None:
            self.act(action)
        else:
            decision = model_decision(action, [self._answer.call(speech)], MODEL, parse="ok")
            self.observation = self._turns.step(self.observation, decision)
        if self.observation.refused is not None:
            raise RuntimeError(f"the world refused {speech.text!r}: {self.observation.refused}")

    def act(self, action: Mapping[str, Any]) -> None:
        """Step the world."""
        self.observation = self._world.step(action)
        self._world.facts()

    def rubric(self) -> dict[str, float]:
        """Return the parts of the score."""
        return dict(self.observation.metadata["rubric"])

    def _paid(self, side: str) -> float:
        parts = self.rubric()
        if "decision_value" not in parts:
            return 0.0
        return parts["decision_value"] if side == "home" else -parts["rival_value"]

    def _settle(self, side: str, worth: list[tuple[int, float]]) -> None:
        if side in self._open:
            number, before = self._open.pop(side)
            worth.append((number, self._paid(side) - before))


def _acts(speech: SpokenOrder) -> bool:
    return speech.choice.part in ORDER_PARTS


def _work(connection: Connection, words: Sequence[str]) -> None:
    threadpool_limits(1)  # each worker has a core
    tokenizer, numbers = Tokenizer(words), itertools.count()
    while (orders := connection.recv()) is not None:
        jobs, width = orders
        _play(connection, iter(jobs) if not callable(jobs) else jobs(), width, tokenizer, numbers)


def _play(
    connection: Connection, jobs: Iterator[MatchJob], width: int, tokenizer: Tokenizer, numbers: Iterator[int]
) -> None:
    matches: list[FleetMatch] = []
    while True:
        report, due = Round([], [], []), list[FleetMatch]()
        while matches or len(due) < width:
            if matches:
                match = matches.pop()
            elif (job := next(jobs, None)) is not None:
                match = FleetMatch(job, numbers)
            else:
                break
            ask = match.next_ask(tokenizer, report.worth)
            if ask is None:
                report.over.append(MatchEnd(match.job.key, match.rubric(), match.played()))
            else:
                report.asks.append(ask)
                due.append(match)
        connection.send(report)
        if not due:
            return
        active = list(due)
        while active:
            drawn: Drawn | None = connection.recv()
            if drawn is None:
                return
            chosen = zip(active, drawn.tokens, drawn.chances, strict=True)
            connection.send([match.take(token, chance, drawn.version) for match, token, chance in chosen])
            active = [match for match in active if match.speech is not None and match.speech.allowed]
        for match in due:
            match.finish()
        matches = due


@dataclass(frozen=True)
class SelfPlay:
    """Matches of all kinds without end, most of them of five overs, made in the worker.

    Args:
        siblings: Number of matches of each seed.
        recorded: One of this many seeds is recorded; 0 for none.
    """

    first: int
    seats: Mapping[str, int | str]
    siblings: int = 1
    recorded: int = 0

    def __call__(self) -> Iterator[MatchJob]:
        """Yield the matches."""
        for number in itertools.count(self.first):
            rng = random.Random(derive_seed(number, "captain", "self-play"))
            options = dict(options_of_match(rng))
            if rng.random() < 0.7:
                options["max_overs"] = 5
            options["reward"] = "decision_value"
            recorded = bool(self.recorded) and number % self.recorded == 0
            job = MatchJob(number, number, plain_options(options), self.seats, recorded)
            yield from itertools.repeat(job, self.siblings)


Choose = Callable[[list[Ask]], "Answering"]


class Answering:
    """Answers to the asks of one round; see :class:`.torch_network.BatchedSpeech`."""

    def tokens(self) -> Drawn:
        """Return a token for every ask that is still open, in order."""
        raise NotImplementedError

    def receive(self, answers: Sequence[tuple[list[int], list[int], bool]]) -> None:
        """Receive what was spoken with each token, and the tokens allowed next.

        No token is allowed after the end of a sentence.
        """
        raise NotImplementedError


class MatchFleet:
    """Worker processes that play matches."""

    def __init__(self, workers: int, words: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, list(words)), daemon=True)
            process.start()
            self._connections.append(ours)
            self._processes.append(process)

    def start(self, parts: Sequence[Any], width: int) -> None:
        """Give each worker its jobs: a list, or a callable that returns an iterator."""
        for connection, part in zip(self._connections, parts, strict=True):
            connection.send((part, width))

    def spread(self, jobs: Iterable[MatchJob], width: int) -> None:
        """Distribute jobs over the workers."""
        jobs, workers = list(jobs), len(self._connections)
        self.start([jobs[at::workers] for at in range(workers)], width)

    def rounds(
        self, choose: Choose
    ) -> Iterator[
        tuple[list[tuple[int, int]], list[tuple[tuple[int, int], float]], list[MatchEnd], Answering | None]
    ]:
        """Play round after round until all matches are over.

        Yields:
            After each round: its decisions, by worker and number, in the order of the conversation; values of
            earlier decisions; matches that ended; the conversation.
        """
        connections = dict(enumerate(self._connections))
        while connections:
            asks: list[Ask] = []
            names: list[tuple[int, int]] = []
            worth: list[tuple[tuple[int, int], float]] = []
            over: list[MatchEnd] = []
            counts: dict[int, int] = {}
            for at, connection in list(connections.items()):
                report: Round = connection.recv()
                worth += [((at, number), value) for number, value in report.worth]
                over += report.over
                if not report.asks:
                    del connections[at]
                    continue
                counts[at] = len(report.asks)
                asks += report.asks
                names += [(at, ask.number) for ask in report.asks]
            conversation = None
            if asks:
                conversation = choose(asks)
                self._speak(connections, counts, conversation)
            yield names, worth, over, conversation

    def _speak(
        self, connections: dict[int, Connection], counts: dict[int, int], conversation: Answering
    ) -> None:
        while counts:
            drawn, begin = conversation.tokens(), 0
            for at, count in counts.items():
                part = slice(begin, begin + count)
                connections[at].send(Drawn(drawn.tokens[part], drawn.chances[part], drawn.version))
                begin += count
            answers, left = [], {}
            for at in counts:
                received = connections[at].recv()
                answers += received
                if still := sum(bool(allowed) for _, allowed, _ in received):
                    left[at] = still
            conversation.receive(answers)
            counts = left

    def stop(self) -> None:
        """Abandon all matches; only after :meth:`rounds` has yielded."""
        for connection in self._connections:
            report: Round = connection.recv()
            if report.asks:
                connection.send(None)

    def close(self) -> None:
        """Stop the workers."""
        for connection in self._connections:
            connection.send(None)
        for process in self._processes:
            process.join(timeout=10)
