"""The address of a run's environments, and steppers that are reset in advance."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.environments.contract import Stepped, Stepper
from spectator.environments.world import World
from spectator.errors import ConfigurationError, EnvironmentFault, EnvironmentUnavailable
from spectator.observations import Observation
from spectator.policies.policy import Action
from spectator.rollouts.prompt_environment import import_prompt_world
from spectator.runs.actors import Transport
from spectator.steppers.http import HttpEnvironment
from spectator.steppers.openenv import socket_url
from spectator.steppers.remote import MAX_ANSWER_BYTES, read_json
from spectator.steppers.remote_world import LOOK_S, http_world, remote_world

OPENENV: Final = "openenv+"
"""Prefix of an OpenEnv server's address, which would else be that of a pooled rollout server."""


@dataclass(frozen=True, slots=True)
class EnvironmentAddress:
    """Where the environments of a run are.

    Args:
        url: Address of their server; ``None`` in this process.
        name: Its name in a run, independent of the host.

    >>> EnvironmentAddress.read("counting")
    EnvironmentAddress(transport='inproc', url=None, name='counting')
    >>> EnvironmentAddress.read("http://localhost:36663/qa")
    EnvironmentAddress(transport='http', url='http://localhost:36663/qa', name='http:/qa')
    >>> EnvironmentAddress.read("my_module:QaEnv").env_name
    'QaEnv'
    >>> EnvironmentAddress.read("openenv+ws://localhost:8000/envs/counting").url
    'ws://localhost:8000/envs/counting/ws'
    """

    transport: Transport
    url: str | None
    name: str

    @classmethod
    def read(cls, environment: str) -> EnvironmentAddress:
        """Parse ``environment``: a world of the catalogue, ``module:name``, or an address.

        ``module:name`` makes objects of this process (:class:`.prompt_environment.PromptEnvironment`).
        ``http://`` and ``https://`` are pooled rollout servers, up to the environment's name;
        ``openenv+ws://``, ``openenv+http://``, ``ws://`` and the same with TLS are OpenEnv servers.

        Raises:
            ConfigurationError: It is another kind of address, or has no host.
        """
        scheme, is_address, _ = environment.partition("://")
        if not is_address:
            return cls("inproc", None, environment)
        if scheme.startswith(OPENENV) or scheme in ("ws", "wss"):
            url = socket_url(environment.removeprefix(OPENENV))
            return cls("openenv", url, f"openenv:{_path(url).removesuffix('/ws')}")
        if scheme in ("http", "https"):
            url = environment.rstrip("/")
            return cls("http", url, f"http:{_path(url)}")
        raise ConfigurationError(
            f"{environment[:200]!r} is neither a world nor an address such as http://host:36663/ENV_NAME "
            "or openenv+ws://host:8000"
        )

    def world(self, load: LoadWorld, *, max_steps: int = 1000) -> World:
        """Load the world that is played there; blocks while it asks the server.

        Args:
            max_steps: Steps after which an episode on another server is cut short.

        Raises:
            InvalidRequest: The catalogue does not have the world.
            ConfigurationError: The server is unreachable, or does not describe the world; or ``module:name``
                cannot be imported.
        """
        if self.url is None:
            if ":" in self.name:
                return import_prompt_world(self.name, max_steps=max_steps)
            return load(self.name)
        if self.transport == "openenv":
            return remote_world(self.url, max_steps=max_steps)
        found = self.resolved()
        where = HttpEnvironment(found.base_url or "", found.env_name, "")
        return http_world(where, own_ids=True, max_steps=max_steps)

    @property
    def env_name(self) -> str:
        """Name of the environment: the world's, or the last part of address or module; else ``remote``."""
        if self.url is None:
            return self.name.rpartition(":")[2]
        return _path(self.url).removesuffix("/ws").rpartition("/")[2] or "remote"

    @property
    def base_url(self) -> str | None:
        """Address to which the environment's name is appended; only for pooled rollout servers."""
        return self.url.rpartition("/")[0] if self.url is not None and self.transport == "http" else None

    def resolved(self) -> EnvironmentAddress:
        """Add the environment's name if it is missing, by asking the server; blocks.

        Raises:
            ConfigurationError: The server does not list its environments, or has several.
        """
        if self.transport != "http" or self.url is None or _path(self.url):
            return self
        return replace(self, url=f"{self.url}/{_only_name(self.url)}")


def _path(url: str) -> str:
    try:
        parts = urlsplit(url)
        reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        reachable = False
    if not reachable:
        raise ConfigurationError(f"{url[:200]!r} is not a valid address: it has no host or an invalid port")
    return parts.path


def _only_name(url: str) -> str:
    """Return the name of the only environment of a pooled rollout server."""
    names = [name for name in map(_name, _listed(f"{url}/envs")) if name]
    if len(names) == 1:
        return names[0]
    known = f"it has {', '.join(names[:20])}" if names else "it does not list them"
    raise ConfigurationError(f"add the environment's name to the address, {url}/ENV_NAME: {known}")


def _listed(url: str) -> list[Any]:
    try:
        with urllib.request.urlopen(url, timeout=LOOK_S) as answer:
            said = read_json(answer.read(MAX_ANSWER_BYTES))
    except urllib.error.HTTPError:
        return []  # the server has no list
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{url} cannot be read: {error}") from error
    except EnvironmentFault as error:
        raise ConfigurationError(f"{url}: {error}") from error
    if isinstance(said, dict):
        said = said.get("environments", said.get("envs"))
    return said if isinstance(said, list) else []


def _name(listed: object) -> str | None:
    if isinstance(listed, dict):
        listed = listed.get("env_name", listed.get("name"))
    return listed if isinstance(listed, str) else None


FRESH_S: Final = 60.0
"""Seconds after which an unused reset is repeated: servers close idle environments."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The arguments, time and result of a reset in advance."""

    seed: int
    episode_id: str
    options: Mapping[str, Any]
    at_s: float
    came: Stepped | EnvironmentFault


class PreparedStepper:
    """A :class:`~spectator.environments.contract.Stepper` whose environment :meth:`make_ready` resets.

    The first :meth:`reset` with the same seed, id and options then returns its result, or raises its error.
    After :data:`FRESH_S` seconds, or with other arguments, the environment is reset again; if its server has
    closed it meanwhile, another is opened.

    Args:
        stepper: The first environment, already open.
    """

    def __init__(
        self, open_stepper: Callable[[], Stepper], clock: Clock, stepper: Stepper | None = None
    ) -> None:
        self._open = open_stepper
        self._clock = clock
        self._stepper = stepper or open_stepper()
        self.waiting: Callable[[bool], None] = lambda begun: None
        """Called with ``True`` before and ``False`` after each wait for the environment."""
        self._begun: _Beginning | None = None
        self.shown: Observation | None = None
        """The observation after the last step."""

    async def make_ready(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> None:
        """Reset the environment; :meth:`reset` later raises any failure but an unreachable server.

        Raises:
            EnvironmentUnavailable: Its server is unreachable or full; the environment is closed.
        """
        came: Stepped | EnvironmentFault
        try:
            came = await self._stepper.reset(
                seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
            )
        except EnvironmentUnavailable:
            await self._stepper.aclose()
            raise
        except EnvironmentFault as error:
            came = error
        except BaseException:
            await self._stepper.aclose()
            raise
        self._begun = _Beginning(seed, episode_id, dict(options), self._clock.monotonic(), came)

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`."""
        return self._stepper.given_up

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`."""
        begun, self._begun = self._begun, None
        if begun is not None:
            asked = (seed, episode_id, dict(options))
            fresh = self._clock.monotonic() - begun.at_s <= FRESH_S
            if fresh and asked == (begun.seed, begun.episode_id, begun.options):
                if isinstance(begun.came, EnvironmentFault):
                    raise begun.came
                return begun.came
        with self._waits():
            try:
                return await self._stepper.reset(
                    seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
                )
            except EnvironmentUnavailable:
                if begun is None:
                    raise
            await self._stepper.aclose()
            self._stepper = self._open()
            return await self._stepper.reset(
                seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
            )

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        with self._waits():
            stepped = await self._stepper.step(action, limit_s=limit_s)
        self.shown = stepped.observation
        return stepped

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`."""
        with self._waits():
            return await self._stepper.snapshot(limit_s=limit_s)

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`."""
        with self._waits():
            return await self._stepper.restore(snapshot, limit_s=limit_s)

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        with self._waits():
            return await self._stepper.state(limit_s=limit_s)

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`."""
        with self._waits():
            return await self._stepper.truth(limit_s=limit_s)

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._begun = None
        await self._stepper.aclose()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        self.waiting(True)
        try:
            yield
        finally:
            self.waiting(False)
