"""The export of a claim from the journal into a claim file."""

from __future__ import annotations

from spectator import __version__
from spectator.environments.collider.claims.file import ClaimFile
from spectator.environments.collider.claims.reading import claim_file, read_evidence
from spectator.errors import EpisodeNotFound, JournalDamaged
from spectator.events import decode
from spectator.journal.base import Journal
from spectator.journal.chain import Chain


async def export_claim(journal: Journal, episode_id: str) -> ClaimFile:
    """The last claim of an episode, with everything that is needed to check it.

    Raises:
        EpisodeNotFound: There is no such episode.
        JournalDamaged: Its chain of digests does not hold.
        InvalidRequest: It holds no claim, or the claim rests on nothing.
    """
    summary = await journal.episode(episode_id)
    if summary is None:
        raise EpisodeNotFound(episode_id)
    chain, texts = Chain(), []
    async for links in journal.links(episode_id):
        for broken in chain.check(links):
            raise JournalDamaged(f"event {broken.seq} of {episode_id} {broken.message}")
        texts += [link.text for link in links]
    evidence = read_evidence([decode(text).event for text in texts])
    return claim_file(episode_id, evidence, texts, chain.digest.hex(), __version__)
