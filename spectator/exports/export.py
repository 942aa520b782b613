"""Export recorded episodes from Python."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

from spectator.errors import ConfigurationError, EpisodeNotFound
from spectator.exports.formats import ExportSource, format_named
from spectator.exports.groups import GroupRule
from spectator.journal import JOURNAL_FILE
from spectator.journal.contract import EpisodeFilter, every_episode
from spectator.journal.sql_journal import SqlJournal


async def export(
    data_dir: str | Path,
    out: str | Path,
    *episode_ids: str,
    form: str = "messages",
    after_seq: int = 0,
    advantages: bool = False,
    min_own_share: float = 0.0,
    notes: str | Path | None = None,
    **chosen_by: Any,
) -> int | None:
    """Write recorded episodes to a file for trainers or other programs.

    Args:
        data_dir: Folder of the journal, or of a run.
        out: File, which appears once it is complete; a name that ends in ``.parquet`` writes a table.
        episode_ids: Which episodes; all that match ``chosen_by`` if omitted.
        form: Export format: a key of :data:`spectator.exports.formats.FORMATS`.
        after_seq: Omit events and calls up to this sequence number.
        advantages: Add normalised advantages to groups.
        min_own_share: Omit episodes of which a fallback decided more than the rest of this share, 0 to 1;
            groups count them under ``failures``.
        notes: File of notes whose labels make the preferences.
        chosen_by: Fields of :class:`~spectator.journal.contract.EpisodeFilter`, such as ``run_id``.

    Returns:
        The number of rows; ``None`` for a format without rows.

    Raises:
        ConfigurationError: The format is unknown, ``out`` does not match it, there is no journal, or
            ``min_own_share`` is not between 0 and 1.
        RunNotFound: The description of the run in the folder cannot be read.
        EpisodeNotFound: An episode is not in the journal.
        JournalError: The journal cannot be read.

    >>> import asyncio, tempfile
    >>> from spectator import export, play
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     episode = asyncio.run(play("counting", seed=3, data_dir=folder))
    ...     asyncio.run(export(folder, f"{folder}/events.ndjson", form="ndjson"))
    """
    chosen_form, path, place = format_named(form), Path(out), Path(data_dir) / JOURNAL_FILE
    chosen_form.check(path)
    if not place.exists():
        raise ConfigurationError(f"there is no journal at {place}")
    async with aclosing(await SqlJournal.open(f"sqlite:///{place}", writable=False)) as journal:
        chosen = []
        for episode_id in episode_ids:
            summary = await journal.episode(episode_id)
            if summary is None:
                raise EpisodeNotFound(episode_id)
            chosen.append(summary)
        if not episode_ids:
            chosen = await every_episode(journal, EpisodeFilter(limit=1000, **chosen_by))
        source = ExportSource(
            journal, [one for one in chosen if chosen_form.takes(one)], False, after_seq, advantages,
            min_own_share, GroupRule.of_folder(Path(data_dir)), None if notes is None else Path(notes),
        )  # fmt: skip
        return await chosen_form.export(source, path)
