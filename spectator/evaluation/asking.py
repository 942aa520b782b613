"""How models are asked: their prompts, and the certificate of their settings and replies.

The certificate is counted from the exchanges in an episode's events, which the digests of the recorded calls
cover; so `spectator verify-bundle` counts it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from pydantic import BaseModel, Field

from spectator.catalog import LoadWorld
from spectator.environments.world import World
from spectator.errors import FieldError, InvalidRequest
from spectator.llm.exchanges import SETTINGS
from spectator.model_calls import ModelCall
from spectator.policies.captains import ModelCaptain
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import Preset

Counts = Mapping[str, Mapping[str, int]]
"""By field of :class:`Replies`, how often each value occurred."""


class Replies(BaseModel):
    """What the endpoint of one captain said about its replies, by count of requests."""

    requests: int = Field(default=0, ge=0, description="Recorded requests, with or without a reply")
    models: dict[str, int] = Field(default_factory=dict, description="The model, as the reply names it")
    providers: dict[str, int] = Field(
        default_factory=dict, description="Who served the model, as a router names it; often not named"
    )
    system_fingerprints: dict[str, int] = Field(
        default_factory=dict, description="The configuration that served it; often not named"
    )
    finish_reasons: dict[str, int] = Field(default_factory=dict, description="Why each reply ended")
    failures: dict[str, int] = Field(
        default_factory=dict, description="Requests without a reply, by kind of failure"
    )
    prompts: dict[str, int] = Field(
        default_factory=dict, description="Edition of the prompt, by count of decisions with a request"
    )

    @classmethod
    def of(cls, counted: Iterable[Counts]) -> Replies:
        """Sum up counts of :func:`count_exchanges`."""
        sums: dict[str, Counter[str]] = {}
        for counts in counted:
            for name, values in counts.items():
                sums.setdefault(name, Counter()).update(values)
        fields = {name: dict(sorted(values.items())) for name, values in sums.items()}
        requests = sum(sums.get("requests", Counter()).values())
        return cls.model_validate({**fields, "requests": requests})

    def lines(self) -> Iterator[str]:
        """The counts in words, one line for each field that has any."""
        for name, values in self.model_dump(exclude={"requests"}).items():
            if values:
                yield f"{name.replace('_', ' ')}: {', '.join(f'{one} {n:,}' for one, n in values.items())}"


_OF_REPLIES: Final = {
    "models": "model",
    "providers": "provider",
    "system_fingerprints": "system_fingerprint",
    "finish_reasons": "finish_reason",
}
"""By field of :class:`Replies`, the member of a reply."""


def count_exchanges(decided: Mapping[str, Any], counts: dict[str, dict[str, int]]) -> None:
    """Add the exchanges of one decision, made or failed, to ``counts``.

    Args:
        decided: Data of its event, with ``exchanges``.
        counts: By field of :class:`Replies`.
    """
    exchanges = decided.get("exchanges") or ()
    for exchange in exchanges:
        reply = exchange.get("reply")
        _add(counts, "requests", "recorded")
        if reply is None:
            _add(counts, "failures", (exchange.get("failure") or {"kind": "reply not in the event"})["kind"])
            continue
        for field, member in _OF_REPLIES.items():
            if (value := reply.get(member)) is not None:
                _add(counts, field, value)
    if exchanges:
        _add(counts, "prompts", str(decided.get("prompt") or 1))


def _add(counts: dict[str, dict[str, int]], field: str, value: str) -> None:
    values = counts.setdefault(field, {})
    values[value] = values.get(value, 0) + 1


def settings_differences(claimed: ModelCaptain, call: ModelCall) -> Iterator[str]:
    """Yield how a recorded call was made otherwise than a captain's claimed settings say, field by field.

    Args:
        claimed: The captain with the settings of the manifest.
        call: One of its calls.
    """
    recorded = call.about.get(SETTINGS)
    if recorded is None:
        yield "asked: the recorded calls do not state their settings; play the matches again to publish them"
        return
    stated, usual = claimed.sent(), ModelCaptain.model_fields
    for name in sorted(stated.keys() | recorded.keys()):
        here = recorded[name] if name in recorded else usual[name].get_default(call_default_factory=True)
        if stated.get(name) != here:
            yield f"asked.{name}: is claimed to be {stated.get(name)!r:.100}, but calls have {here!r:.100}"
    for name in ("model", "temperature", "max_tokens", "tool_choice"):
        if call.about.get(name) != stated[name]:
            sent = call.about.get(name)
            yield f"asked.{name}: is claimed to be {stated[name]!r:.100}, but {sent!r:.100} was sent"


PROMPT: Final = "prompt"
"""Setting of a captain that chooses the version of its prompt."""

WITH: Final = "@"
"""Separates a captain from the version of its prompt: ``llm:mine@short``."""


def versions_of(setting: str = PROMPT) -> tuple[str, ...]:
    """Return the values that a setting of captains can have; empty if there is no choice.

    >>> versions_of("style")
    ('tools', 'json', 'xml')
    """
    field = ModelCaptain.model_fields.get(setting)
    return () if field is None else tuple(one for one in get_args(field.annotation) if isinstance(one, str))


def with_every_version(captains: Sequence[str], world: World, setting: str = PROMPT) -> tuple[str, ...]:
    """Add to the captains each model with every other version of its prompt.

    Args:
        captains: Presets.
        world: The world, with its models.
        setting: The setting that is varied.

    Raises:
        InvalidRequest: There is only one version.
    """
    versions = versions_of(setting)
    if len(versions) < 2:
        raise InvalidRequest(
            [FieldError("prompts", "this version of Spectator has only one prompt; omit it")]
        )
    found = []
    for name in captains:
        found.append(name)
        preset = world.captains.get(name)
        if preset is not None and isinstance(preset.build, ModelBuild) and WITH not in name:
            own = getattr(preset.build.captain, setting)
            found += [f"{name}{WITH}{one}" for one in versions if one != own]
    return tuple(dict.fromkeys(found))


def knowing_versions(load: LoadWorld, captains: Sequence[str], setting: str = PROMPT) -> LoadWorld:
    """Return a loader of worlds that also have the captains named with a version, such as ``llm:mine@short``.

    They share the limits of the captain that they are made from.

    Args:
        load: Loads a world.
        captains: The captains' names.
        setting: The setting that the version is of.
    """
    named = [(name, *name.split(WITH, 1)) for name in captains if WITH in name]

    def versions(presets: Mapping[str, Preset]) -> dict[str, Preset]:
        found = dict(presets)
        for name, of, version in named:
            preset = presets.get(of)
            if (
                preset is None
                or not isinstance(preset.build, ModelBuild)
                or version not in versions_of(setting)
            ):
                continue
            label = f"{preset.label}, {setting} {version}"
            captain = preset.build.captain.model_copy(update={setting: version, "label": label[:80]})
            found[name] = replace(
                preset,
                name=name,
                label=captain.label,
                build=replace(preset.build, captain=captain),
                fingerprint=captain.fingerprint,
            )
        return found

    def with_versions(name: str) -> World:
        world = load(name)
        if not named:
            return world
        return replace(world, captains=versions(world.captains), opponents=versions(world.opponents))

    return with_versions
