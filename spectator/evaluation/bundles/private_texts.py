"""What must never leave the machine: keys and local paths, looked for in all that is to be published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spectator.environments.world import World
from spectator.errors import ConfigurationError
from spectator.events import RecordedEvent, encode_json
from spectator.journal.contract import Journal
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import Preset

SHORTEST_SECRET: Final = 6
"""Characters below which a text is no key, and would be found everywhere."""

_KEY_NAMES: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


@dataclass(frozen=True, slots=True)
class PrivateText:
    """Something that may not be published.

    Args:
        what: What it is, without telling it.
        text: It.
    """

    what: str
    text: str


def private_texts(
    world: World, variables: Mapping[str, str], folders: Iterable[Path]
) -> tuple[PrivateText, ...]:
    """Everything that must not be in a bundle made here.

    Args:
        world: With everybody who can play in it: their keys, and the further fields of their requests.
        variables: The environment; each variable that a captain takes its key from, and each whose name ends
            like that of a key.
        folders: Folders of this machine whose paths nobody needs to know; short ones such as ``/root`` are
            left out, because a text may hold them by chance.
    """
    return tuple(dict.fromkeys((*_keys(world, variables), *_paths(folders))))


def _keys(world: World, variables: Mapping[str, str]) -> Iterator[PrivateText]:
    presets: Iterable[Preset] = (*world.captains.values(), *world.opponents.values())
    models = [preset.build.captain for preset in presets if isinstance(preset.build, ModelBuild)]
    named = {captain.api_key_env for captain in models if captain.api_key_env is not None}
    for name, value in variables.items():
        if (name in named or name.upper().endswith(_KEY_NAMES)) and len(value) >= SHORTEST_SECRET:
            yield PrivateText(f"the value of the variable {name}", value)
    for captain in models:
        for path, value in _texts(captain.extra):
            if any(path.upper().endswith(end.lstrip("_")) for end in _KEY_NAMES):
                yield PrivateText(f"the further field {path!r} of {captain.label}", value)


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and len(value) >= SHORTEST_SECRET:
        yield path, value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _texts(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member, path)


def _paths(folders: Iterable[Path]) -> Iterator[PrivateText]:
    for folder in folders:
        path = folder.absolute()
        if len(path.parts) > 2:
            yield PrivateText("a path of this machine", str(path))


async def need_nothing_private(
    journal: Journal, episode_id: str, recorded: Iterable[RecordedEvent], private: Sequence[PrivateText]
) -> None:
    """Let an episode through only if neither its events nor what belongs to them hold a private text.

    Raises:
        ConfigurationError: One is there; says which, and where, without repeating it. A record cannot be
            changed, so the match must be played again without it.
        JournalError: The episode cannot be read.
    """
    for one in recorded:
        need_none(one.text, private, f"event {one.seq} of {episode_id}")
    async for call in journal.calls(episode_id):
        where = f"call {call.place} behind event {call.decided.seq} of {episode_id}"
        whole = [call.call.messages, call.call.tools, call.call.reply, call.call.about]
        for part in whole:
            need_none(_json(part), private, where)
    truth = await journal.truth(episode_id)
    need_none(truth or "", private, f"the truth of {episode_id}")


def need_none(text: str, private: Sequence[PrivateText], where: str) -> None:
    """Let a text through only if it holds nothing private.

    Args:
        text: What is to be published.
        private: What it may not hold.
        where: What the text is, for people.

    Raises:
        ConfigurationError: It holds one.
    """
    for one in private:
        if one.text in text or _json(one.text)[1:-1] in text:
            raise ConfigurationError(
                f"{where} holds {one.what}; nothing is published. A record cannot be changed: play it again "
                "in another folder, without that"
            )


def _json(value: Any) -> str:
    try:
        return encode_json(value)
    except ValueError:  # half a surrogate pair
        return repr(value)
