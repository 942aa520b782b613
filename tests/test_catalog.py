"""Worlds are found by name; a wrong name is answered with the right ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from spectator import catalog
from spectator.catalog import BUILT_IN, load_world, missing_extra, unknown_name, world_names
from spectator.environments.counting import WORLD
from spectator.errors import ConfigurationError, InvalidRequest
from tests.fakes import world_with


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of other packages; how often they were read from the disk is their ``reads``."""
    entries: list[EntryPoint] = []

    def entry_points(*, group: str) -> Sequence[EntryPoint]:
        assert group == "spectator.environments"
        return entries

    monkeypatch.setattr(catalog, "entry_points", entry_points)
    catalog._outside.cache_clear()
    load_world.cache_clear()
    yield entries
    catalog._outside.cache_clear()
    load_world.cache_clear()


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "spectator.environments")


OTHER = world_with(name="other")


def test_the_worlds_that_ship_come_first_and_are_not_replaced(registered: list[EntryPoint]) -> None:
    registered += [entry("zebra", "x:y"), entry("counting", "evil:WORLD"), entry("aardvark", "x:y")]
    assert world_names() == [*BUILT_IN, "aardvark", "zebra"]
    assert load_world("counting") is WORLD


def test_a_world_from_outside(registered: list[EntryPoint]) -> None:
    registered.append(entry("other", "tests.test_catalog:OTHER"))
    assert load_world("other").name == "other"
    assert load_world("other") is load_world("other")


def test_an_unknown_world_is_answered_with_the_known_ones(registered: list[EntryPoint]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_world("countin")
    (wrong,) = caught.value.fields
    assert wrong.field == "environment"
    assert "did you mean 'counting'?" in wrong.rule
    assert "Known: collider, counting, cricket" in wrong.rule


def test_unknown_names_do_not_read_the_disk_again(
    registered: list[EntryPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def entry_points(*, group: str) -> Sequence[EntryPoint]:
        reads.append(group)
        return []

    monkeypatch.setattr(catalog, "entry_points", entry_points)
    for number in range(5):
        with pytest.raises(InvalidRequest):
            load_world(f"no-such-world-{number}")
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("other", "tests.test_catalog:WORLD", "does not name the world 'other'"),
        ("other", "tests.test_catalog:entry", "does not name the world 'other'"),
        ("other", "tests.no_such_module:WORLD", "cannot be imported: ModuleNotFoundError"),
        ("other", "tests.test_catalog:NOTHING", "cannot be imported: AttributeError"),
    ],
)
def test_a_broken_entry_point_is_named(
    registered: list[EntryPoint], name: str, value: str, said: str
) -> None:
    registered.append(entry(name, value))
    with pytest.raises(ConfigurationError, match=said):
        load_world(name)


def test_a_long_unknown_name_is_cut() -> None:
    wrong: Any = unknown_name("environment", "x" * 10_000, ["counting"])
    assert len(wrong.rule) < 200


def test_a_world_whose_packages_are_absent_is_not_offered_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalog, "find_spec", lambda name: None if name == "iminuit" else object())
    missing_extra.cache_clear()
    load_world.cache_clear()
    try:
        assert "collider" not in world_names()
        with pytest.raises(InvalidRequest, match=r"iminuit: pip install 'openenv-spectator\[collider\]'"):
            load_world("collider")
    finally:
        monkeypatch.undo()
        missing_extra.cache_clear()
        load_world.cache_clear()
    assert missing_extra("collider") is None
