"""Make the writes of one process fail and move its clock, by a library that is compiled when needed.

``faults.c`` is loaded by ``LD_PRELOAD`` and obeys a small file that the harness maps too.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("faults.c")

ORDERS: Final = struct.Struct("iiiiq")
"""The error number, the writes that still pass, the writes that failed, nothing, and the clock's offset."""

NO_COMPILER: Final = "no C compiler: install cc for faults of the disk and of the clock"


def compiled(folder: Path) -> Path | None:
    """Compile the library into ``folder``; ``None`` without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "faults.so"
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"],
        check=True,
        capture_output=True,
    )
    return library


class FaultOrders:
    """What the library does in one process.

    Args:
        path: The file of orders, created here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(ORDERS.size))
        path.chmod(0o666)  # PostgreSQL runs as another user
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), ORDERS.size)

    @property
    def failed(self) -> int:
        """How many writes failed so far."""
        return int(ORDERS.unpack(self._shared[:])[2])

    def fail(self, error: int, *, passing: int = 0) -> None:
        """Let every write fail with ``error`` after ``passing`` more that succeed; 0 lets all succeed."""
        struct.pack_into("ii", self._shared, 0, 0, passing)
        struct.pack_into("i", self._shared, 0, error)

    def move_clock(self, seconds: int) -> None:
        """Let the clock differ from that of the machine."""
        struct.pack_into("q", self._shared, 16, seconds)

    def heal(self) -> None:
        """Let writes succeed and the clock be right."""
        self.fail(0)
        self.move_clock(0)

    def close(self) -> None:
        """Unmap the file."""
        self._shared.close()
