"""What to change where a captain's endpoint gives no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointTimeout,
    EndpointUnavailable,
)

if TYPE_CHECKING:
    from spectator.policies.captain_table import ModelCaptain


def advice(error: EndpointError, captain: ModelCaptain) -> str:
    """What to change after ``error``, in a sentence for whoever runs the captain."""
    if "key" in str(error):
        name = captain.api_key_env
        return f"put a valid key into the variable {name}" if name else "name the key's variable"
    by_status = {
        402: "pay its provider, or choose another captain",
        403: "ask its provider for access to this model",
        404: f"check the model's name ({captain.model}) and the address ({captain.base_url})",
        413: "set a smaller context_tokens",
    }
    if error.status in by_status:
        return by_status[error.status]
    if "paid" in str(error):
        return by_status[402]
    if isinstance(error, EndpointBusy) or error.failure_class == "rate_limited":
        return "try again later, and set requests_per_minute, tokens_per_minute or concurrency"
    if isinstance(error, EndpointTimeout):
        return f"raise timeout_s ({captain.timeout_s:g}), or see whether the endpoint is overloaded"
    if isinstance(error, EndpointMalformed):
        return f"check the address ({captain.base_url}) and the form ({captain.form}): something else answers"
    if isinstance(error, EndpointUnavailable):
        return f"see whether the endpoint runs, and check the address ({captain.base_url})"
    return "change or leave out the field that it names: temperature, max_tokens_field, send_seed, extra"
