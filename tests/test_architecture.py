"""Who may import whom, and what may stand where: the house plan, enforced."""

from __future__ import annotations

import ast
import functools
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "spectator",
        "spectator.errors",
        "spectator.child_program",
        "spectator.clock",
        "spectator.json_values",
        "spectator.text",
    ),
    ("spectator.observations", "spectator.model_calls"),
    ("spectator.events",),
    ("spectator.core_events",),
    ("spectator.bus", "spectator.llm", "spectator.journal.contract", "spectator.journal.encoding"),
    ("spectator.journal",),
    ("spectator.policies", "spectator.narration"),
    ("spectator.environments.contract",),
    ("spectator.environments.world", "spectator.environments"),
    ("spectator.environments.conformance",),
    ("spectator.environments.*",),
    ("spectator.catalog",),
    ("spectator.cast",),
    ("spectator.process_environment",),
    ("spectator.steppers",),
    ("spectator.episodes", "spectator.episodes"),
    ("spectator.episodes",),
    ("spectator.episodes", "spectator.episodes.single_agent"),
    ("spectator.episodes",),
    ("spectator.runs", "spectator.local_episode"),
    ("spectator.exports",),
    ("spectator.terminal", "spectator.terminal_drawing", "spectator.evaluation"),
    (
        "spectator.client",
        "spectator.rollouts",
        "spectator.collector",
        "spectator.importing",
        "spectator.training",
        "server",
    ),
    ("spectator.watchable", "spectator.environments.cricket.recipe"),
    ("spectator.cli",),
    ("spectator.command",),
)
"""Lower floors first. A room imports lower floors and itself; rooms on one floor do not know each other."""

FACADE = ROOT / "spectator" / "__init__.py"
"""Hands out functions of higher floors when they are first used."""

CRICKET = "spectator.environments.cricket"
CRICKET_FLOORS: tuple[tuple[str, ...], ...] = (
    ("laws",),
    ("scorer",),
    ("people",),
    ("ball", "ratings", "real_match_record"),
    ("forecast",),
    ("match", "events"),
    ("real_matches",),
    ("show", "captaincy", "decision_account"),
    ("grading",),
    ("environment", "simulation", "prompt"),
    ("oracle", "calls", "trained"),
    ("analyst", "cricsheet", "question"),
    ("scorebook_compiler",),
    ("imported_matches",),
    ("world",),
    ("recipe",),
)
"""The same for the rooms of the cricket world."""

EPISODES = "spectator.episodes"
EPISODES_FLOORS: tuple[tuple[str, ...], ...] = (
    ("controls", "steps", "view", "recorded_calls", "alternatives", "crash_log"),
    ("plan", "past_states"),
    ("derived_pages",),
    ("decisions", "reader"),
    ("driver", "embargo"),
    ("stream",),
    ("unrecorded_steps",),
    ("derived_stream", "episode_view", "checkpoints", "single_agent"),
    ("replayer", "handle"),
    ("restore",),
    ("fork",),
    ("supervisor",),
    ("recovery",),
)
"""The same for the modules of an episode."""

SERVER = "server"
SERVER_FLOORS: tuple[tuple[str, ...], ...] = (
    ("setting_types", "lru_cache"),
    ("settings",),
    ("security", "tracing", "journal"),
    ("viewers", "telemetry"),
    ("transport", "background"),
    ("services",),
    ("trouble",),
    ("http", "openenv"),
    ("wiring", "process", "doctor"),
    ("app",),
)
"""The same for the rooms of the server."""

DOORS: tuple[str, ...] = ("server.transport",)
"""Rooms of which others import the package only, none of its modules."""

PRIVATE_API = "server/transport/private_api.py"
"""The only file that uses private names of uvicorn and websockets."""

PUBLIC_API = {
    "uvicorn": {"uvicorn"},
    "websockets": {
        "websockets.asyncio.client",
        "websockets.exceptions",
        "websockets.frames",
        "websockets.sync.client",
        "websockets.typing",
    },
}
"""Modules of these packages that may be imported elsewhere."""

WEB = {"fastapi", "starlette", "jinja2", "uvicorn"}
RULES_MAY_IMPORT: dict[str, set[str]] = {
    "cricket": {"numpy", "threadpoolctl", "torch"},
    "collider": {"numpy", "scipy", "iminuit", "pyhf", "particle"},
    "foreign_games": {"numpy"},
}
"""Packages from outside that the rules of a world may import, beside pydantic; a world not named, none."""

COLLIDER_LOADS_LATE = {"scipy", "iminuit", "pyhf", "particle"}
"""Heavy packages of the collider that are imported by functions that need them, not on top of a module."""


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all checks."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def sources() -> list[Path]:
    return sorted([*(ROOT / "spectator").rglob("*.py"), *(ROOT / "server").rglob("*.py")])


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> tuple[int, str]:
    """Floor and room of a module; each world is a room of its own."""
    best: tuple[int, str] | None = None
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            prefix = room.removesuffix(".*")
            if room.endswith(".*"):
                if module.startswith(prefix + ".") and (best is None or len(best[1]) <= len(prefix)):
                    best = (floor, ".".join(module.split(".")[:3]))
            elif (module == room or module.startswith(room + ".")) and (
                best is None or len(best[1]) < len(room)
            ):
                best = (floor, room)
    assert best is not None, f"{module} has no room in the house plan"
    return best


@functools.cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    """Absolute names of imported modules, with their lines."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: list[tuple[str, int]] = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found.append((name, node.lineno))
            if node.module is None:
                found += [(f"{name}.{alias.name}", node.lineno) for alias in node.names]
    return tuple(found)


def upward(path: Path) -> Iterator[str]:
    """Imports of a module that its floor does not allow."""
    if path == FACADE:
        return
    floor, room = room_of(module_of(path))
    for name, line in imports_of(path):
        if name.split(".")[0] not in ("spectator", "server") or name == "spectator":
            continue
        other_floor, other = room_of(name)
        if other != room and other_floor >= floor:
            yield f"{path}:{line}: {room} may not import {other}"


def test_arrows_point_down() -> None:
    wrong = [line for path in sources() for line in upward(path)]
    assert not wrong, "\n".join(wrong)


def inner_floor(module: str, package: str, floors: tuple[tuple[str, ...], ...]) -> tuple[int, str] | None:
    """Floor and room of a module inside ``package``; ``None`` for the package itself."""
    if not module.startswith(package + "."):
        return None
    room = module.removeprefix(package + ".").split(".")[0]
    return next(((floor, room) for floor, rooms in enumerate(floors) if room in rooms), None)


@pytest.mark.parametrize(
    ("package", "floors"), [(CRICKET, CRICKET_FLOORS), (EPISODES, EPISODES_FLOORS), (SERVER, SERVER_FLOORS)]
)
def test_arrows_inside_a_room_point_down(package: str, floors: tuple[tuple[str, ...], ...]) -> None:
    folder = ROOT.joinpath(*package.split("."))
    for path in sorted(folder.rglob("*.py")):
        here = inner_floor(module_of(path), package, floors)
        if module_of(path) == package:
            continue
        assert here is not None, f"{path} has no room in {package}"
        for name, line in imports_of(path):
            there = inner_floor(name, package, floors)
            if there is not None:
                assert there[1] == here[1] or there[0] < here[0], (
                    f"{path}:{line}: {here[1]} imports {there[1]}"
                )


def test_rooms_with_a_door_are_entered_through_it() -> None:
    for path in sources():
        for name, line in imports_of(path):
            for door in DOORS:
                inside = module_of(path) == door or module_of(path).startswith(f"{door}.")
                assert inside or not name.startswith(f"{door}."), f"{path}:{line} imports {name}, not {door}"


def test_private_names_of_uvicorn_and_websockets_stand_in_one_file() -> None:
    from server.transport.private_api import NEEDED

    # Names that other things have, too.
    common = {
        "connection_made",
        "data_received",
        "extensions",
        "fail",
        "frames",
        "logger",
        "loop",
        "parse",
        "request",
    }
    common |= {"response", "scope", "send_close", "send_text", "shutdown", "state", "transport", "writable"}
    names = {name for needed in NEEDED.values() for name in needed} - common
    for path in sources():
        if path == ROOT / PRIVATE_API:
            continue
        for name, line in imports_of(path):
            public = PUBLIC_API.get(name.split(".")[0])
            assert public is None or name in public, f"{path}:{line} imports {name}"
        if path.is_relative_to(ROOT / "server"):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.Attribute) and not _is_own(node):
                    assert node.attr not in names, f"{path}:{node.lineno} uses {node.attr}"


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def test_only_the_server_imports_the_web_framework() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for path in sources()
        if not path.is_relative_to(ROOT / "server")
        for name, line in imports_of(path)
        if name.split(".")[0] in WEB
    ]
    assert not wrong, "\n".join(wrong)


def worlds_modules() -> list[Path]:
    return [
        path for path in sources() if "environments" in path.parts and len(path.relative_to(ROOT).parts) > 3
    ]


def test_a_world_imports_only_what_it_may() -> None:
    wrong = []
    for path in worlds_modules():
        may = RULES_MAY_IMPORT.get(path.relative_to(ROOT).parts[2], set()) | {"pydantic", "spectator"}
        for name, line in imports_of(path):
            top = name.split(".")[0]
            if top not in may and top not in sys.stdlib_module_names:
                wrong.append(f"{path}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_heavy_packages_of_the_collider_are_imported_late() -> None:
    wrong = []
    for path in worlds_modules():
        for node in parsed(path).body:
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            heavy = [name for name in names if name.split(".")[0] in COLLIDER_LOADS_LATE]
            wrong += [f"{path}:{node.lineno} imports {name} at once" for name in heavy]
    assert not wrong, "\n".join(wrong)


def test_no_core_file_template_or_shared_script_names_a_game() -> None:
    worlds = [path.name for path in (ROOT / "spectator" / "environments").iterdir() if path.is_dir()]
    worlds = [name for name in worlds if not name.startswith("_") and name != "counting"]
    assert worlds
    core = [
        path
        for folder in ("spectator", "server", "static", "templates")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".js", ".html", ".css"} and "environments" not in path.parts
    ]
    allowed = {"spectator/catalog.py", "server/settings.py"}
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in core
        if str(path.relative_to(ROOT)) not in allowed and path.parent.name != "cli"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if any(world in line.lower() for world in worlds)
    ]
    assert not named, f"names a game: {named}"


def broad_handlers(path: Path) -> list[int]:
    """Lines of handlers that catch everything and do not end by letting that very error go on."""
    return [
        node.lineno
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ExceptHandler)
        and (
            node.type is None
            or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"})
        )
        and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None)
    ]


def test_errors_are_caught_broadly_only_where_the_plan_says() -> None:
    allowed = {
        "spectator/episodes/driver.py": "becomes the episode's end",
        "spectator/steppers/local.py": "carries the error to its caller untouched",
        "spectator/narration/narrator.py": "costs a line its sound and nothing else",
        "spectator/watchable/loop_values.py": "costs the loop that is watched nothing",
        "spectator/watchable/recorder_client.py": "costs the loop that is watched nothing",
    }
    found = {str(path.relative_to(ROOT)) for path in sources() if broad_handlers(path)}
    assert found == set(allowed), f"broad handlers, or none any more, in {sorted(found ^ set(allowed))}"


def test_only_settings_and_one_place_of_the_cli_read_the_process_environment() -> None:
    readers = {
        str(path.relative_to(ROOT))
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
    }
    assert readers <= {"server/settings.py", "spectator/process_environment.py"}


def test_every_module_says_in_its_first_line_what_it_is() -> None:
    """In plain English: "Owns ..." was a template, and templates are not read."""
    for path in [*sources(), *(ROOT / "tools").rglob("*.py")]:
        docstring = ast.get_docstring(parsed(path))
        assert docstring, f"{path} has no docstring"
        assert not docstring.startswith("Owns"), f"{path} says what it owns, not what it is"


def classes() -> dict[str, list[str]]:
    """Where each class of the library, the server, the tools and the benchmarks is defined, nested or not."""
    found: dict[str, list[str]] = {}
    beside = [path for folder in ("tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    for path in [*sources(), *beside]:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def test_no_two_classes_share_a_name() -> None:
    """One name, one thing, wherever a reader meets it."""
    twice = {name: places for name, places in classes().items() if len(places) > 1}
    assert not twice, twice


def test_no_function_is_called_tell() -> None:
    """It was, eighteen times: a name says what is done, such as record, publish, report."""
    told = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lstrip("_") == "tell"
    ]
    assert not told, told


def test_the_plan_itself_has_teeth(tmp_path: Path) -> None:
    """The checks above see an upward import and a relative one."""
    sample = ROOT / "spectator" / "episodes" / "driver.py"
    assert any(name == "spectator.clock" for name, _ in imports_of(sample))
    assert room_of("spectator.environments.counting.world")[1] == "spectator.environments.counting"
    assert room_of("spectator.journal.sql_journal")[0] < room_of("spectator.episodes.driver")[0]
    assert room_of("spectator.environments.world")[0] < room_of("spectator.environments.counting")[0]


def test_the_wheel_carries_every_package() -> None:
    """A folder that is not listed would be missing for everybody who installs it."""
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    )
    mapped = {"spectator": "spectator", "server": "spectator.server", "static": "spectator.static"}
    mapped["templates"] = "spectator.templates"
    found = {
        module_of(path).replace(folder, name, 1)
        for folder, name in mapped.items()
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert found == listed
