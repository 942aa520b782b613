"""A Parquet file that is there once all of it is, written a group of rows at a time."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from spectator.errors import ConfigurationError
from spectator.ordinary_files import need_ordinary
from spectator.text import encodable

ROW_GROUP: Final = 4096
"""Rows that are kept before they are written together."""

GROUP_BYTES: Final = 32_000_000
"""About how large rows may become before they are written, however few they are."""


class ParquetFile:
    """Writes rows of one schema; as a context manager it leaves a whole file or none.

    Args:
        path: The file.
        columns: Name and Arrow type of every column, in order; ``list<TYPE>`` for lists.
        name: Key of the file's metadata that says which table it is.

    Raises:
        ConfigurationError: pyarrow is not installed, or ``path`` is no ordinary file.
    """

    def __init__(self, path: Path, columns: Mapping[str, str], *, name: str) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"{error.name} is not installed; Parquet needs: pip install 'openenv-spectator[parquet]'"
            ) from error
        need_ordinary(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._arrow = pyarrow
        fields = [(column, _type_of(pyarrow, kind)) for column, kind in columns.items()]
        self._schema = pyarrow.schema(fields, metadata={name: "1"})
        self._writer = parquet.ParquetWriter(self._part, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)

    def extend(self, rows: Iterable[dict[str, Any]], size: int = 0) -> None:
        """Add ``rows``, which take about ``size`` bytes beyond the usual."""
        self._rows.extend(rows)
        self._size += size
        if len(self._rows) >= ROW_GROUP or self._size >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
            self._rows, self._size = [], 0


BYTES_A_NUMBER: Final = 32
"""About what a number in a list takes while its row waits to be written."""


class RowFile(ParquetFile):
    """Writes rows of plain JSON, one at a time; in some columns the value is written as JSON text.

    Args:
        path: The file.
        columns: Name and Arrow type of every column, in order.
        as_json: Columns, of type ``string``, whose values are no text.
        name: Key of the file's metadata that says which table it is.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(
        self, path: Path, columns: Mapping[str, str], as_json: Collection[str], *, name: str
    ) -> None:
        super().__init__(path, columns, name=name)
        self._as_json = as_json

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row, which has every column."""
        told = {
            name: None if row[name] is None else json.dumps(row[name], ensure_ascii=False)
            for name in self._as_json
        }
        texts = {name: None if text is None else encodable(text) for name, text in told.items()}
        numbers = sum(len(value) for value in row.values() if isinstance(value, list))
        size = sum(len(text or "") for text in texts.values()) + BYTES_A_NUMBER * numbers
        self.extend([{**row, **texts}], size)


def _type_of(arrow: Any, kind: str) -> Any:
    if kind.startswith("list<"):
        return arrow.list_(_type_of(arrow, kind[5:-1]))
    named = {"timestamp[ms, tz=UTC]": arrow.timestamp("ms", tz="UTC"), "bool": arrow.bool_()}
    return named[kind] if kind in named else arrow.type_for_alias(kind)
