"""Episode handlers: what is added to a rollout's prompts from the experience of earlier episodes."""

from spectator.rollouts.handlers.base import EpisodeContext, EpisodeHandler, EpisodeOutcome, NullHandler
from spectator.rollouts.handlers.contextual import ContextualUcbHandler
from spectator.rollouts.handlers.experience import Experience, load_experiences
from spectator.rollouts.handlers.ucb import TemplateHandler, UcbHandler

__all__ = [
    "ContextualUcbHandler",
    "EpisodeContext",
    "EpisodeHandler",
    "EpisodeOutcome",
    "Experience",
    "NullHandler",
    "TemplateHandler",
    "UcbHandler",
    "load_experiences",
]
