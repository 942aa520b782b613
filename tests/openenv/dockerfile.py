"""A reading of our Dockerfile, and carrying it out without a container engine."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    name: str
    text: str

    def words(self) -> list[str]:
        """Its arguments, whichever form they have."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(slots=True)
class Stage:
    """One build stage.

    Args:
        base: The image that it begins with.
        name: What other stages call it.
        instructions: All others, in order.
    """

    base: str
    name: str | None
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        """The instructions of this name."""
        return [one for one in self.instructions if one.name == name]

    def only(self, name: str) -> Instruction:
        """The one instruction of this name."""
        (one,) = self.all(name)
        return one

    def variables(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = [word.partition("=") for one in self.all("ENV") for word in one.words()]
        return {name: value for name, _, value in pairs}


def read(path: Path) -> list[Stage]:
    """The stages of a Dockerfile."""
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    stages: list[Stage] = []
    for line in filter(str.strip, joined.splitlines()):
        name, _, text = line.strip().partition(" ")
        if name == "FROM":
            base, *rest = text.split()
            stages.append(Stage(base, rest[1] if rest else None))
        else:
            stages[-1].instructions.append(Instruction(name, text.strip()))
    return stages


class Context:
    """The build context: what .dockerignore lets through.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self._rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]

    def lets_through(self, path: str) -> bool:
        """Whether a file is part of it; the last rule that matches the file or a folder above it decides."""
        parts = path.split("/")
        above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
        kept = True
        for rule in self._rules:
            pattern = rule.removeprefix("!").removeprefix("**/")
            names = [*above, *(parts if rule.startswith("**/") else ())]
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                kept = rule.startswith("!")
        return kept

    def copy(self, source: str, target: Path) -> None:
        """Copy a file, or the contents of a folder."""
        start = self._root / source
        files = [start] if start.is_file() else [path for path in start.rglob("*") if path.is_file()]
        chosen = [path for path in files if self.lets_through(path.relative_to(self._root).as_posix())]
        assert chosen, f"nothing of {source} is in the build context"
        for path in chosen:
            to = target if start.is_file() else target / path.relative_to(start)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)


def build(stage: Stage, context: Context, root: Path) -> Path:
    """Carry a stage's COPY and RUN instructions out below ``root``, which stands for the file system's root.

    What an installer has in its cache is not downloaded again. No bytecode is compiled: the caller
    compiles what it runs.

    Returns:
        The working folder.
    """
    folder = root
    for one in stage.instructions:
        if one.name == "WORKDIR":
            folder = root / one.text.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
        elif one.name == "COPY":
            *sources, target = one.words()
            for source in sources:
                to = folder / target
                context.copy(source, to / source if target.endswith("/") else to)
        elif one.name == "RUN":
            text = re.sub(" --(no-cache(-dir)?|compile-bytecode)(?= )", "", one.text)
            run(text.replace("/opt/", f"{root}/opt/"), folder)
    return folder


def run(command: str, folder: Path) -> None:
    """Run a shell command as the image's shell would, with this interpreter as its Python."""
    path = f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
