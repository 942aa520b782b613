"""Many matches at once in worker processes; one process answers for the networks, token by token.

Workers step the worlds and hold the sentences that are being said; the process with the networks chooses
among the tokens that may follow.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from spectator.environments.cricket.environment import CricketEnvironment
from spectator.environments.cricket.recipe.examples import options_of_match, plain_options, scripted
from spectator.environments.cricket.trained.network import Tokenizer
from spectator.environments.cricket.trained.perception import Sight
from spectator.environments.cricket.trained.speech import ORDER_PARTS, SpokenOrder, calls_of
from spectator.environments.world import derive_seed

SIDES = ("home", "away")


class MatchJob(NamedTuple):
    """One match.

    Args:
        key: Its name.
        seed: Its seed.
        options: Its options, complete.
        seats: Who decides for each side: the number of a network, or the name of a captain.
    """

    key: Any
    seed: int
    options: Mapping[str, Any]
    seats: Mapping[str, int | str]


class Ask(NamedTuple):
    """A decision that a network is to make.

    Args:
        number: Its number, within the worker.
        network: Which network.
        role: What kind of decision.
        prompt: Tokens of the situation.
        said: Tokens that the sentence begins with.
        allowed: Tokens that may follow.
        acts: Whether the choice is acted on.
    """

    number: int
    network: int
    role: str
    prompt: list[int]
    said: list[int]
    allowed: list[int]
    acts: bool


class Round(NamedTuple):
    """What a worker has to tell at the beginning of a round.

    Args:
        asks: Decisions that are due, one of each match.
        worth: What earlier decisions were worth to their sides, in win chances, by number.
        over: Matches that ended: key and the parts of the score.
    """

    asks: list[Ask]
    worth: list[tuple[int, float]]
    over: list[tuple[Any, dict[str, float]]]


def self_play(first: int, seats: Mapping[str, int | str]) -> Iterator[MatchJob]:
    """Matches without end, of all kinds, most of them of five overs."""
    for number in itertools.count(first):
        rng = random.Random(derive_seed(number, "captain", "self-play"))
        options = dict(options_of_match(rng))
        if rng.random() < 0.7:
            options["max_overs"] = 5
        options["reward"] = "decision_value"
        yield MatchJob(number, number, plain_options(options), seats)


class _Match:
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

    def next_ask(self, tokenizer: Tokenizer, worth: list[tuple[int, float]]) -> Ask | None:
        """Play on until a network is due; ``None`` when the match is over."""
        while not self.observation.done:
            side = self.observation.actor
            assert side is not None
            if side in self._others:
                self.act(self._others[side].choose(self.observation).action)
                continue
            self._settle(side, worth)
            sight = Sight(self.observation.content, [one["tool"] for one in self.observation.legal_actions])
            speech = SpokenOrder(sight, tokenizer)
            if not speech.allowed:
                self._finish(speech)
                continue
            self.speech, number = speech, next(self._numbers)
            self._open[side] = (number, self._paid(side))
            prompt = tokenizer.encode(sight.text())
            network = int(self.job.seats[side])
            return Ask(number, network, sight.role, prompt, [*speech.ids], speech.allowed, _acts(speech))
        for side in SIDES:
            self._settle(side, worth)
        return None

    def finish(self) -> None:
        """Carry out the sentence that was said."""
        assert self.speech is not None
        self._finish(self.speech)

    def _finish(self, speech: SpokenOrder) -> None:
        tool, arguments = calls_of(speech.sight, speech.order or {})[-1]
        self.act({"tool": tool, "arguments": arguments})
        if self.observation.refused is not None:
            raise RuntimeError(f"refused: {self.observation.refused} of {speech.text}")

    def act(self, action: Mapping[str, Any]) -> None:
        """Step the world."""
        self.observation = self._world.step(action)
        self._world.facts()

    def rubric(self) -> dict[str, float]:
        """The parts of the score."""
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


def _work(line: Connection, words: Sequence[str]) -> None:
    threadpool_limits(1)  # each worker has a core
    tokenizer, numbers = Tokenizer(words), itertools.count()
    while (orders := line.recv()) is not None:
        jobs, width = orders
        _play(line, iter(jobs) if not callable(jobs) else jobs(), width, tokenizer, numbers)


def _play(
    line: Connection, jobs: Iterator[MatchJob], width: int, tokenizer: Tokenizer, numbers: Iterator[int]
) -> None:
    matches: list[_Match] = []
    while True:
        told, due = Round([], [], []), list[_Match]()
        while matches or len(due) < width:
            if matches:
                match = matches.pop()
            elif (job := next(jobs, None)) is not None:
                match = _Match(job, numbers)
            else:
                break
            ask = match.next_ask(tokenizer, told.worth)
            if ask is None:
                told.over.append((match.job.key, match.rubric()))
            else:
                told.asks.append(ask)
                due.append(match)
        line.send(told)
        if not due:
            return
        active = list(due)
        while active:
            tokens = line.recv()
            if tokens is None:
                return
            answers = []
            for match, token in zip(active, tokens, strict=True):
                speech = match.speech
                assert speech is not None
                before = len(speech.ids)
                speech.take(token)
                answers.append((speech.ids[before:], speech.allowed, _acts(speech)))
            line.send(answers)
            active = [match for match in active if match.speech is not None and match.speech.allowed]
        for match in due:
            match.finish()
        matches = due


@dataclass(frozen=True)
class SelfPlay:
    """Makes :func:`self_play` in a worker."""

    first: int
    seats: Mapping[str, int | str]

    def __call__(self) -> Iterator[MatchJob]:
        """The matches."""
        return self_play(self.first, self.seats)


Choose = Callable[[list[Ask]], "Answering"]


class Answering:
    """Answers for the asks of one round; implemented by :class:`.torch_network.BatchedSpeech`."""

    def tokens(self) -> list[int]:
        """A token for every ask that is still open, in order."""
        raise NotImplementedError

    def heard(self, answers: Sequence[tuple[list[int], list[int], bool]]) -> None:
        """What was said with each token, and what may follow; nothing where the sentence is complete."""
        raise NotImplementedError


class MatchFleet:
    """Worker processes.

    Args:
        workers: How many.
        words: The vocabulary.
    """

    def __init__(self, workers: int, words: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._lines: list[Connection] = []
        self._processes = []
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, list(words)), daemon=True)
            process.start()
            self._lines.append(ours)
            self._processes.append(process)

    def begin(self, parts: Sequence[Any], width: int) -> None:
        """Give each worker its matches: lists of jobs, or what makes an iterator of them there."""
        for line, part in zip(self._lines, parts, strict=True):
            line.send((part, width))

    def spread(self, jobs: Iterable[MatchJob], width: int) -> None:
        """Spread jobs over the workers."""
        jobs = list(jobs)
        self.begin([jobs[at :: len(self._lines)] for at in range(len(self._lines))], width)

    def rounds(
        self, choose: Choose
    ) -> Iterator[
        tuple[
            list[tuple[int, int]],
            list[tuple[tuple[int, int], float]],
            list[tuple[Any, dict[str, float]]],
            Answering | None,
        ]
    ]:
        """Play round after round until all matches are over.

        Yields:
            After each round: the decisions that it made, by worker and number, in the order of the
            conversation; what earlier decisions were worth; matches that ended; the conversation.
        """
        lines = dict(enumerate(self._lines))
        while lines:
            asks: list[Ask] = []
            names: list[tuple[int, int]] = []
            worth: list[tuple[tuple[int, int], float]] = []
            over: list[tuple[Any, dict[str, float]]] = []
            counts: dict[int, int] = {}
            for at, line in list(lines.items()):
                told: Round = line.recv()
                worth += [((at, number), value) for number, value in told.worth]
                over += told.over
                if not told.asks:
                    del lines[at]
                    continue
                counts[at] = len(told.asks)
                asks += told.asks
                names += [(at, ask.number) for ask in told.asks]
            conversation = None
            if asks:
                conversation = choose(asks)
                self._speak(lines, counts, conversation)
            yield names, worth, over, conversation

    def _speak(self, lines: dict[int, Connection], counts: dict[int, int], conversation: Answering) -> None:
        while counts:
            tokens, begin = conversation.tokens(), 0
            for at, count in counts.items():
                lines[at].send(tokens[begin : begin + count])
                begin += count
            answers, left = [], {}
            for at in counts:
                heard = lines[at].recv()
                answers += heard
                if still := sum(bool(allowed) for _, allowed, _ in heard):
                    left[at] = still
            conversation.heard(answers)
            counts = left

    def stop(self) -> None:
        """Give up all matches; only after :meth:`rounds` has yielded."""
        for line in self._lines:
            told: Round = line.recv()
            if told.asks:
                line.send(None)

    def close(self) -> None:
        """End the workers."""
        for line in self._lines:
            line.send(None)
        for process in self._processes:
            process.join(timeout=10)
