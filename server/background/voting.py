"""Viewers call along: a question before a decision, votes in memory, one result once it is made.

Votes never enter an episode's stream or record. A match is followed from the moment a page asks for its
questions. A result is computed once, in the process that evaluates alternatives, and only if there are votes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spectator.bus import Overflow
from spectator.clock import Clock
from spectator.environments.contract import Question
from spectator.episodes.alternatives import AnalysisRequest, DecisionOnRecord, DecisionsOnRecord
from spectator.episodes.controls import step_duration
from spectator.episodes.embargo import PublicReader
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import SpectatorError
from spectator.evaluation.votes import CallScore, ScoredVote, VoteScores, VoteTable, score_votes, voter_id
from spectator.events import RecordedEvent

from ..security.faults import INVALID, VOTED, VOTING_CLOSED, Refused
from ..viewers import wire
from ..viewers.audience import Audience
from ..viewers.wire import Frame, VoteMessage
from .child_processes import AlternativesProcess

logger = logging.getLogger(__name__)

LEAST_WINDOW_S: Final = 1.5
"""Shortest time in which people can choose; with less, nothing is asked."""

COUNT_INTERVAL_S: Final = 1.0
"""Least seconds between two frames with the number of votes."""

MOST_VOTES: Final = 50_000
"""Votes on one question."""

MOST_WAITING: Final = 8
"""Results that may wait to be computed, of all matches; further ones are dropped."""

MOST_OVER: Final = 32
"""Ended matches, the newest, whose last result is kept for viewers who ask for it."""

READ_EVENTS: Final = 200


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote as kept until the result: a card, and the voter's name, if any."""

    card: int
    name: str


@dataclass(slots=True)
class Ballot:
    """A question and the votes on it.

    Args:
        turn: The turn of the next decision, which closes it.
        window_s: About how long it is open, in seconds.
    """

    question: Question
    turn: int
    window_s: float
    votes: dict[str, Vote] = field(default_factory=dict)
    open: bool = True

    def counts(self) -> list[int]:
        """Return the votes for each card."""
        cards = [one.card for one in self.votes.values()]
        return [cards.count(card) for card in range(len(self.question.cards))]

    def shown(self) -> dict[str, Any]:
        """Return it for viewers: not who called what, so that votes are independent."""
        return {
            "turn": self.turn,
            "actor": self.question.actor,
            "words": self.question.words,
            "cards": [card.words for card in self.question.cards],
            "window_s": round(self.window_s, 2),
            "votes": len(self.votes),
        }


class MatchVoting:
    """The questions of one match.

    Args:
        live: The match; its world has ``question`` and ``analyst``.
    """

    def __init__(self, live: EpisodeHandle, voting: Voting) -> None:
        self.live = live
        self.ballot: Ballot | None = None
        """The newest question that is not answered."""
        self.result: Mapping[str, Any] | None = None
        """The newest result, as viewers get it."""
        self._voting = voting
        self.work: set[asyncio.Task[None]] = set()
        """What may still bring a result: the following, and scoring."""
        self._counted = asyncio.Event()
        self._made = DecisionsOnRecord()
        self._read_seq = 0

    async def follow(self) -> None:
        """Ask before decisions until the match is over."""
        subscription = self.live.subscribe(Overflow.DROP_OLDEST)
        counting = asyncio.create_task(self._send_counts())
        try:
            async for batch in subscription:
                await self._take(batch)
        finally:
            counting.cancel()
            subscription.close()

    def vote(self, address: str, sent: VoteMessage) -> str:
        """Count a vote; returns the voter's public id.

        Raises:
            Refused: There were too many from the address, the question is not open, or it has this viewer's
                vote already.
        """
        self._voting.count(address)
        ballot, turn = self.ballot, sent.turn
        if ballot is None or not ballot.open or turn != ballot.turn or len(ballot.votes) >= MOST_VOTES:
            now = "none is open now" if ballot is None or not ballot.open else f"turn {ballot.turn} is open"
            raise Refused(VOTING_CLOSED, f"Calls for turn {turn} are closed; {now}.")
        voter = voter_id(sent.token)
        if voter in ballot.votes:
            raise Refused(VOTED, f"You have called turn {turn} already; the first call counts.")
        ballot.votes[voter] = Vote(sent.card, sent.name)
        self._counted.set()
        return voter

    async def _take(self, batch: Sequence[RecordedEvent]) -> None:
        for one in batch:
            if one.type == "decision.made":
                self._close(one)
        plan = self.live.plan
        beats = sum(plan.beats.get(one.type, 0.0) for one in batch)
        window_s = step_duration(self.live.pace, beats)
        if beats:
            self.ballot = None
        # Without viewers nothing is asked, nor if play went on since.
        if not beats or window_s < LEAST_WINDOW_S or batch[-1].event.turn != self.live.turn:
            return
        observation, ask = self.live.awaited, plan.world.question
        if observation is None or observation.done or ask is None or not self._voting.watched(self.live):
            return
        question = ask(observation)
        if question is not None:
            self.ballot = Ballot(question, self.live.turn + 1, window_s)
            await self._voting.send(self.live, question=self.ballot.shown())

    def _close(self, decided: RecordedEvent) -> None:
        """Close the question at the next decision, and settle it at the one that answers it."""
        ballot, data = self.ballot, decided.event.data
        if ballot is None or decided.event.turn < ballot.turn:
            return
        ballot.open = False
        answers = data["actor"] == ballot.question.actor
        if answers and data["action"].get("tool") == ballot.question.answered_by:
            self.ballot = None
            if ballot.votes:
                self._voting.settle(self, ballot, decided.event.seq)

    async def settle(self, ballot: Ballot, seq: int) -> None:
        """Score the votes on a question that the decision ``seq`` answered, and show the result."""
        cards = [dict(card.action) for card in ballot.question.cards]
        key = self.live.episode_id, f"{self.live.epoch} cards", seq
        found, _ = await self._voting.alternatives.weigh(await self._request(seq, cards), key)
        if not found["cards"]:
            return  # such as the decision that was refused
        (played,) = [one for one in found["best"] if one["played"]]
        called = next((place for place, one in enumerate(found["cards"]) if one["played"]), None)
        chances = [one["chance"] for one in found["cards"]]
        scores = score_votes(chances, found["best"][0]["chance"], played["chance"], called, ballot.counts())
        self.result = _shown_result(ballot, scores, called, played["words"])
        await self._voting.send(self.live, result=self.result)
        await self._voting.keep(
            [
                ScoredVote(voter, vote.name, scores.cards[vote.card], scores.best[vote.card])
                for voter, vote in ballot.votes.items()
            ]
        )

    async def _request(self, seq: int, cards: Sequence[Mapping[str, Any]]) -> AnalysisRequest:
        made = self._made
        while self._read_seq < seq:
            read = await self._voting.records.read(
                self.live.episode_id, after_seq=self._read_seq, limit=READ_EVENTS
            )
            if not read:
                break
            for one in read:
                data = one.event.data
                if one.type == "episode.started":
                    made.started = data
                elif one.type == "decision.made":
                    made.decisions.append(DecisionOnRecord(one.event.seq, data["actor"], data["action"]))
            self._read_seq = read[-1].event.seq
        place = next(number for number, one in enumerate(made.decisions) if one.seq == seq)
        return replace(AnalysisRequest.of(self.live.episode_id, made, place), cards=cards)

    async def _send_counts(self) -> None:
        while True:
            await self._counted.wait()
            self._counted.clear()
            if (ballot := self.ballot) is not None:
                await self._voting.send(self.live, turn=ballot.turn, votes=len(ballot.votes))
            await self._voting.clock.sleep(COUNT_INTERVAL_S)


def _shown_result(ballot: Ballot, scores: VoteScores, called: int | None, words: str) -> dict[str, Any]:
    cards = zip(ballot.question.cards, ballot.counts(), scores.cards, scores.best, strict=True)
    return {
        "turn": ballot.turn,
        "words": ballot.question.words,
        "votes": len(ballot.votes),
        "cards": [
            {"words": card.words, "votes": votes, "best": best, **_score(score)}
            for card, votes, score, best in cards
        ],
        "crowd": _score(scores.crowd),
        "captain": {"words": words, "card": called, **_score(scores.captain)},
    }


def _score(score: CallScore) -> dict[str, float]:
    return {"regret": round(score.regret, 3), "brier": round(score.brier, 4)}


class Voting:
    """The questions of all matches that this process plays.

    Args:
        records: Reads the decisions up to the one that is scored.
        table: Keeps each day's scores.
        count: Counts a vote of an address; raises Refused if there were too many.
    """

    def __init__(
        self,
        audience: Audience,
        records: PublicReader,
        alternatives: AlternativesProcess,
        table: VoteTable,
        count: Callable[[str], None],
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.records = records
        self.alternatives = alternatives
        self.table = table
        self.clock = clock
        self.count = count
        self._audience = audience
        self._tasks = tasks
        self._matches: dict[str, MatchVoting] = {}
        self._over: dict[str, MatchVoting] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._waiting = 0

    def of(self, live: EpisodeHandle) -> MatchVoting | None:
        """Return a match's questions, followed from now on; ``None`` if its world asks nothing."""
        if live.plan.world.question is None or live.plan.world.analyst is None or live.ended:
            return None
        match = self._matches.get(live.episode_id)
        if match is None:
            match = self._matches[live.episode_id] = MatchVoting(live, self)
            self._start(match, self._follow(match), "votes")
        return match

    async def after_end(self, episode_id: str) -> MatchVoting | None:
        """Return the questions of a match that ended lately, once the last one has its result."""
        match = self._matches.get(episode_id) or self._over.get(episode_id)
        while match is not None and match.work:
            await asyncio.wait(match.work)
        return match

    def cast(self, episode_id: str, address: str, sent: VoteMessage) -> Frame:
        """Count a vote that came over a viewer's socket; returns the answer."""
        if wrong := wire.wrong_in(sent):
            reason = "; ".join(f"{one.field} {one.rule}" for one in wrong)
            return wire.vote(sent.turn, refused=INVALID.name, reason=reason)
        try:
            match = self._matches.get(episode_id)
            if match is None:
                raise Refused(VOTING_CLOSED, "Nothing can be called in this episode now.")
            return wire.vote(sent.turn, voter=match.vote(address, sent))
        except Refused as error:
            return wire.vote(sent.turn, refused=error.kind.name, reason=error.detail)

    def watched(self, live: EpisodeHandle) -> bool:
        """Whether a match has viewers here."""
        return self._audience.count(live.episode_id) > 0

    async def send(self, live: EpisodeHandle, **fields: Any) -> None:
        """Send a frame to the match's viewers that keep up."""
        if (relay := self._audience.relay(live.episode_id)) is not None:
            await relay.send_lossy(wire.crowd(**fields))

    def settle(self, match: MatchVoting, ballot: Ballot, seq: int) -> None:
        """Score a question in the background, unless too many wait."""
        if self._waiting < MOST_WAITING:
            self._waiting += 1
            self._start(match, self._settle(match, ballot, seq), "vote result")

    async def keep(self, votes: Sequence[ScoredVote]) -> None:
        """Add scored votes to today's table."""
        await asyncio.to_thread(self.table.add, self.clock.now().date(), votes)

    def stop(self) -> None:
        """Stop following matches."""
        for task in self._running:
            task.cancel()

    def _start(self, match: MatchVoting, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._tasks.create_task(work, name=name)
        for running in (self._running, match.work):
            running.add(task)
            task.add_done_callback(running.discard)

    async def _follow(self, match: MatchVoting) -> None:
        try:
            await match.follow()
        finally:
            del self._matches[match.live.episode_id]
            if match.live.ended:
                self._over[match.live.episode_id] = match
                if len(self._over) > MOST_OVER:
                    del self._over[next(iter(self._over))]

    async def _settle(self, match: MatchVoting, ballot: Ballot, seq: int) -> None:
        try:
            await match.settle(ballot, seq)
        except SpectatorError as error:
            logger.warning("votes on decision %d of %s have no result: %s", seq, match.live.episode_id, error)
        finally:
            self._waiting -= 1
