"""The trained captain as a model policy, with its network in this process."""

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

from spectator.clock import Clock
from spectator.environments.cricket.captaincy.captains import CAPTAINS
from spectator.environments.cricket.trained.captain import FOLDER, card_of
from spectator.environments.cricket.trained.network import NOTHING, Memory, Network
from spectator.environments.cricket.trained.perception import Sight
from spectator.environments.cricket.trained.speech import ORDER_PARTS, SpokenOrder, calls_of
from spectator.errors import ConfigurationError, EndpointError, EndpointUnavailable
from spectator.events import encode_json
from spectator.llm.chat import ChatAnswer, ChatEndpoint, ChatRequest, Message, OnDelta, Usage
from spectator.observations import Observation
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Policy, ScriptedPolicy
from spectator.policies.prompts import Briefing
from spectator.policies.spending import SpendLimit

_SLOT: Final = re.compile(r"\b[bf]\d{1,2}\b")


@cache
def network(folder: Path) -> Network:
    """Return the network that all seats of this process share, read once.

    Raises:
        ConfigurationError: The weights are missing or damaged.
    """
    return Network.load(folder)


class TrainedEndpoint:
    """The endpoint of one seat.

    Args:
        folder: Folder with the weights; the first thread that answers reads them.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._sight: Sight | None = None
        self._asked = ""
        card = card_of(folder)
        self._version = "" if card is None else card.sha256[:12]

    def conversation(self, observation: Observation) -> Sequence[Message]:
        """Return the messages for the network: slots' players and the situation.

        The network reads only the situation; names replace slots in its answer.
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
        """Answer a request, on a separate thread.

        See :meth:`spectator.llm.client.ChatClient.complete`.
        """
        sight = self._sight
        if sight is None or request.messages[-1]["content"] != self._asked:
            raise EndpointError("the trained captain only answers the situation it was last shown")
        loop, stop = asyncio.get_running_loop(), threading.Event()

        def on_text(text: str) -> None:
            if on_delta is not None and text:
                loop.call_soon_threadsafe(on_delta, "text", text)

        try:
            async with asyncio.timeout(deadline):
                return await asyncio.to_thread(self._answer, request, sight, on_text, stop)
        except TimeoutError as error:
            raise EndpointUnavailable(
                f"the trained captain did not decide within {deadline:.0f} s"
            ) from error
        except ConfigurationError as error:
            raise EndpointError(str(error)) from error
        finally:
            stop.set()

    async def aclose(self) -> None:
        """Close nothing: the network is shared."""

    def _answer(
        self, request: ChatRequest, sight: Sight, on_text: Callable[[str], None], stop: threading.Event
    ) -> ChatAnswer:
        start = time.monotonic()
        captain = network(self._folder)
        tokenizer, names = captain.tokenizer, sight.shown_names()
        prompt = tokenizer.encode(self._asked)
        most = captain.context - captain.context // 4
        if len(prompt) > most:
            allowed = f"the trained captain reads at most {most}"
            raise EndpointError(f"the situation has {len(prompt)} tokens; {allowed}")
        speech, memory = SpokenOrder(sight, tokenizer), Memory(captain)
        rng = random.Random(request.seed)
        chances: list[float] = []
        first_token_s = None
        read, unread = 0, list(prompt)
        said: list[str] = []

        def speak() -> None:
            """Send each new token, with players by name."""
            nonlocal read
            new, read = speech.ids[read:], len(speech.ids)
            unread.extend(new)
            chances.extend([0.0] * (read - len(chances)))
            for token in new:
                word = _SLOT.sub(lambda slot: names[slot[0]], tokenizer.words[token].replace(NOTHING, ""))
                said.append(word)
                on_text(word)

        speak()
        while speech.allowed and not stop.is_set():
            logs = memory.chances(memory.read(unread), speech.allowed)
            unread.clear()
            if speech.choice.part in ORDER_PARTS:
                taken = int(logs.argmax())
            else:
                taken = _drawn(logs.tolist(), rng)
            first_token_s = first_token_s or time.monotonic() - start
            speech.take(speech.allowed[taken])
            chances.append(float(logs[taken]))
            speak()
        if speech.order is None:
            raise EndpointUnavailable("the trained captain was stopped")
        written = _written(sight, speech)
        on_text(written)
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
            latency_s=time.monotonic() - start,
            first_token_s=first_token_s,
        )


def _drawn(logs: Sequence[float], rng: random.Random) -> int:
    """Draw one of several wordings by their log probabilities."""
    return rng.choices(range(len(logs)), [exp(log) for log in logs])[0]


def _written(sight: Sight, speech: SpokenOrder) -> str:
    """Return the calls that carry out a sentence, as the end of an answer."""
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
"""Maximum actions of an answer: with decisions by ball, a change and the ball."""


class TrainedPolicy(ModelPolicy):
    """A seat of a trained captain; :class:`.captain.TrainedBuild` checks its weights first.

    Args:
        seed: Seed of its wording, and of its fallback.
        clock: Time.
        folder: Folder with the weights.
        client: Answers instead of the network; ``None`` for the network.
        fallback: Makes the policy that decides if the network does not; ``None`` for `heuristic`.

    Raises:
        ConfigurationError: The fallback is not a scripted policy.
    """

    def __init__(
        self,
        seed: int,
        clock: Clock,
        folder: Path = FOLDER,
        *,
        client: ChatEndpoint | None = None,
        fallback: Callable[[int], Policy] | None = None,
    ) -> None:
        endpoint, card = TrainedEndpoint(folder), card_of(folder)
        substitute = (fallback or CAPTAINS["heuristic"].build)(seed)
        if not isinstance(substitute, ScriptedPolicy):
            raise ConfigurationError("the fallback of a trained captain must be a scripted policy")
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
        super().__init__(client or endpoint, settings, briefing, fallback=substitute, seed=seed, clock=clock)

    def spend_from(self, budget: SpendLimit) -> None:
        """Ignore the budget: the captain runs here and costs nothing."""
