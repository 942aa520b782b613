"""Rows of Parquet files, a batch at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.importing.reading import FileRow, Source

MAGIC: Final = b"PAR1"

BATCH: Final = 64
"""Rows that are read at once."""


def is_table(path: Path) -> bool:
    """Whether a file is a Parquet file."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def table_rows(source: Source) -> Iterator[FileRow]:
    """The rows of a table; numbers that are not finite become ``None``.

    Raises:
        ConfigurationError: It cannot be read, or the extra for tables is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ConfigurationError("tables need pyarrow: pip install 'openenv-spectator[import]'") from error
    try:
        with parquet.ParquetFile(source.path) as table:
            size, count = source.size, max(1, table.metadata.num_rows)
            number = 0
            for batch in table.iter_batches(batch_size=BATCH):
                for value in batch.to_pylist():
                    number += 1
                    source.done = size * number // count
                    plain = _plain(value)
                    yield FileRow(number, plain, sha256(encode_json(plain).encode()).hexdigest())
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigurationError(f"{source.path} is no table that can be read: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | bool | None) else str(type(value).__name__)
