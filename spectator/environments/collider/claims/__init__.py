"""Claims of discovery as files: what was frozen, what was opened, what was claimed, and how to check it.

``await export_claim(journal, episode_id)`` writes one, ``check_claim(read_claim(text))`` checks it, and so
does ``spectator claim check FILE``.
"""

from spectator.environments.collider.claims.check import ClaimCheck, ClaimReport, check_claim, read_claim
from spectator.environments.collider.claims.export import export_claim
from spectator.environments.collider.claims.file import ClaimFile

__all__ = ["ClaimCheck", "ClaimFile", "ClaimReport", "check_claim", "export_claim", "read_claim"]
