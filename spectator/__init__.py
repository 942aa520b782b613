"""Spectator: the live cockpit for agents that play.

The package root owns the version; everything else is imported from the room that owns it, so that
``import spectator`` costs nothing on a trainer's machine.
"""

from typing import Final

__version__: Final = "0.1.0"
__all__ = ["__version__"]
