"""The trained captain as a model policy, answered by the network in this process."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from math import exp
from pathlib import Path
from typing import Final

from spectator.clock import Clock, SystemClock
from spectator.environments.cricket.captaincy.captains import CAPTAINS
from spectator.environments.cricket.trained.captain import FOLDER, card_of, check_weights
from spectator.environments.cricket.trained.network import NOTHING, Memory, Network
from spectator.environments.cricket.trained.perception import Sight
from spectator.environments.cricket.trained.speech import ORDER_PARTS, SpokenOrder, calls_of
from spectator.errors import ConfigurationError, EndpointError, EndpointUnavailable
from spectator.events import encode_json
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, OnDelta, Usage
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import ScriptedPolicy
from spectator.policies.prompts import Briefing, ModelSettings
from spectator.policies.spending import SpendLimit

_SLOT: Final = re.compile(r"\b[bf]\d{1,2}\b")


@cache
def network(folder: Path) -> Network:
    """The network that all seats of this process share; read once.

    Raises:
        ConfigurationError: Its weights are missing or damaged.
    """
    return Network.load(folder)


class TrainedEndpoint:
    """One seat's endpoint.

    Args:
        folder: Holds the weights; they are read on the thread that answers first.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._sight: Sight | None = None
        self._asked = ""
        card = card_of(folder)
        self._version = "" if card is None else card.sha256[:12]

    def conversation(self, observation: Observation) -> Sequence[Message]:
        """What the network is asked: who is meant by each slot, and the situation.

        It reads the situation alone; the names are put into what it says.
        """
        sight = Sight(observation.content, [action["tool"] for action in observation.legal_actions])
        self._sight, self._asked = sight, sight.text()
        names = ", ".join(f"{slot} {name}" for slot, name in sight.names.items())
        return [
            {"role": "system", "content": f"Players by slot: {names}."},
            {"role": "user", "content": self._asked},
        ]

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """See :meth:`spectator.llm.client.ChatClient.complete`; the network works on a thread of its own."""
        sight = self._sight
        if sight is None or request.messages[-1]["content"] != self._asked:
            raise EndpointError("the trained captain answers the situation it was shown last, and no other")
        loop, stop = asyncio.get_running_loop(), threading.Event()

        def heard(text: str) -> None:
            if on_delta is not None and text:
                loop.call_soon_threadsafe(on_delta, "text", text)

        try:
            async with asyncio.timeout(deadline):
                return await asyncio.to_thread(self._answer, request, sight, heard, stop)
        except TimeoutError as error:
            raise EndpointUnavailable(f"the trained captain did not decide in {deadline:.0f} s") from error
        except ConfigurationError as error:
            raise EndpointError(str(error)) from error
        finally:
            stop.set()

    async def aclose(self) -> None:
        """Close nothing: the network is shared."""

    def _answer(
        self, request: ChatRequest, sight: Sight, heard: Callable[[str], None], stop: threading.Event
    ) -> ChatAnswer:
        begun = time.monotonic()
        captain = network(self._folder)
        tokenizer, names = captain.tokenizer, sight.shown_names()
        prompt = tokenizer.encode(self._asked)
        longest = captain.context // 4
        if len(prompt) > captain.context - longest:
            raise EndpointError(
                f"the situation has {len(prompt)} tokens, and the trained captain reads "
                f"{captain.context - longest} at most"
            )
        speech, memory = SpokenOrder(sight, tokenizer), Memory(captain)
        rng = random.Random(request.seed)
        chances: list[float] = []
        first_token_s = None
        read = 0
        unread = list(prompt)
        said: list[str] = []

        def say() -> None:
            """Say each token since the last time, with players by name."""
            nonlocal read
            new, read = speech.ids[read:], len(speech.ids)
            unread.extend(new)
            chances.extend([0.0] * (read - len(chances)))
            for token in new:
                word = _SLOT.sub(lambda slot: names[slot[0]], tokenizer.words[token].replace(NOTHING, ""))
                said.append(word)
                heard(word)

        say()
        while speech.allowed and not stop.is_set():
            logs = memory.chances(memory.read(unread), speech.allowed)
            unread.clear()
            if speech.choice.part in ORDER_PARTS:
                taken = int(logs.argmax())
            else:
                taken = _drawn(logs.tolist(), rng)
            first_token_s = first_token_s or time.monotonic() - begun
            speech.take(speech.allowed[taken])
            chances.append(float(logs[taken]))
            say()
        if speech.order is None:
            raise EndpointUnavailable("the trained captain was stopped")
        written = _written(sight, speech)
        heard(written)
        return ChatAnswer(
            text="".join(said) + written,
            finish_reason="stop",
            model=request.model,
            weight_version=self._version,
            weight_versions=[(self._version, len(speech.ids))],
            usage=Usage(len(prompt), len(speech.ids)),
            logprobs=array("d", chances),
            token_ids=array("q", speech.ids),
            prompt_token_ids=array("q", prompt),
            latency_s=time.monotonic() - begun,
            first_token_s=first_token_s,
        )


def _drawn(logs: Sequence[float], rng: random.Random) -> int:
    """One of several wordings, drawn by their chances."""
    return rng.choices(range(len(logs)), [exp(log) for log in logs])[0]


def _written(sight: Sight, speech: SpokenOrder) -> str:
    """The call that carries out what was said, as it ends an answer."""
    calls = [
        {"tool": tool, "arguments": arguments} for tool, arguments in calls_of(sight, speech.order or {})
    ]
    if len(calls) == 1:
        return f"\n{encode_json(calls[0])}"
    score = sight.view["score"]
    ball = "bowl" if sight.role == "bowl" else "play"
    calls[-1]["reason"] = (
        f"Now {ball} it, with {score['balls_left']} to come at {score['runs']} for {score['wickets']}."
    )
    return f"\n{encode_json({'actions': calls})}"


TASK: Final = (
    "You captain one side of a limited-overs cricket match. Read the situation, and say your order in a "
    "sentence of which every clause is a fact of the situation."
)
ACTIONS: Final = 2
"""Actions of an answer at most: where balls are decided one by one, a change and the ball."""


class TrainedPolicy(ModelPolicy):
    """A seat of the trained captain.

    Args:
        seed: Draws its wording.
        clock: Time.
        folder: Holds its weights.

    Raises:
        ConfigurationError: They are missing or damaged.
    """

    def __init__(self, seed: int, clock: Clock, folder: Path = FOLDER) -> None:
        check_weights(folder)
        endpoint, card = TrainedEndpoint(folder), card_of(folder)
        fallback = CAPTAINS["heuristic"].build(seed)
        assert isinstance(fallback, ScriptedPolicy)
        settings = ModelSettings(
            model="cricket-captain" if card is None else card.name,
            style="json",
            max_tokens=128,
            context_tokens=1024,
            actions_per_answer=ACTIONS,
            timeout_s=30.0,
            tokens=True,
        )
        briefing = Briefing(TASK, conversation=endpoint.conversation)
        super().__init__(endpoint, settings, briefing, fallback=fallback, seed=seed, clock=clock)

    def spend_from(self, budget: SpendLimit) -> None:
        """Pay nothing: it runs here, so no cap on models holds it back."""


def build(seed: int) -> TrainedPolicy:
    """A new policy for one seat."""
    return TrainedPolicy(seed, SystemClock())
