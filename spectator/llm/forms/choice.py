"""The form of a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spectator.llm.forms.anthropic import AnthropicForm
from spectator.llm.forms.base import OpenAIForm, WireForm
from spectator.llm.forms.gemini import GeminiForm
from spectator.llm.presets import Form

_FORMS: Final[Mapping[Form, Callable[[], WireForm]]] = {
    "openai": OpenAIForm,
    "anthropic": AnthropicForm,
    "gemini": GeminiForm,
}


def form_called(name: Form) -> WireForm:
    """The form that captains call ``name``."""
    return _FORMS[name]()
