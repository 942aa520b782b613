"""The forms in which endpoints are asked: chat completions, Anthropic's Messages, Gemini's generateContent.

Everything else knows chat completions only: a form turns a request into what its endpoint takes, and what
comes back into chunks of a completion.
"""

from spectator.llm.forms.base import Translation, WireForm
from spectator.llm.forms.choice import form_called

__all__ = ["Translation", "WireForm", "form_called"]
