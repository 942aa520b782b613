"""What the packages that trainers use make of our exports; runs where ``datasets`` and ``openenv`` are.

The arguments are folders with the files of ``test_consumers.py``; the answer is one line of JSON, a list.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1")

from datasets import disable_progress_bars, load_dataset
from openenv.core.harness.collect import EpisodeRecord, RolloutSerializer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

TEMPLATE = """
{%- if tools %}<tools>{% for tool in tools %}{{ tool.function | tojson }}{% endfor %}</tools>{% endif %}
{%- for message in messages %}<{{ message.role }}>
{%- if message.reasoning_content is defined and message.reasoning_content %}
{{- '<think>' + message.reasoning_content + '</think>' }}{% endif %}
{{- message.content }}
{%- if message.tool_calls is defined and message.tool_calls %}
{%- for call in message.tool_calls %}<call {{ call.function.name }}
{%- for name, value in call.function.arguments.items() %} {{ name }}={{ value | tojson }}{% endfor %}>
{%- endfor %}{% endif %}</{{ message.role }}>
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
"""In the manner of models that call tools: it needs every argument by its name."""


def tokenizer() -> PreTrainedTokenizerFast:
    model = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    model.pre_tokenizer = Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=model, unk_token="[UNK]")
    made.chat_template = TEMPLATE
    return made


def load(folder: Path, name: str) -> Any:
    kind = {".jsonl": "json", ".parquet": "parquet"}[Path(name).suffix]
    cache = folder / "cache" / Path(name).name.replace("*", "all")
    return load_dataset(kind, data_files=str(folder / name), split="train", cache_dir=str(cache))


def from_text(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A row of a table with the columns that hold JSON read."""
    return {**row, **{name: json.loads(row[name]) for name in names if row[name] is not None}}


def rendered(render: Any, rows: Any, of: Any) -> list[str]:
    """What each row's conversation is as text; its ids must be those of the text."""
    texts = []
    for row in rows:
        if not (messages := of(row)):
            continue  # a group without a usable member
        texts.append(render.apply_chat_template(messages, tools=row["tools"], tokenize=False))
        ids = render.apply_chat_template(messages, tools=row["tools"], return_dict=True)["input_ids"]
        assert list(ids) == render(texts[-1], add_special_tokens=False)["input_ids"]
    return texts


def main(folder: Path) -> dict[str, Any]:
    render = tokenizer()
    told: dict[str, Any] = {}
    for form, of in (
        ("messages", lambda row: row["messages"] + row["completion"]),
        ("groups", lambda row: row["prompt"] + next(iter(row["completions"]), [])),
        ("preferences", lambda row: row["prompt"] + row["chosen"]),
        ("preferences/rejected", lambda row: row["prompt"] + row["rejected"]),
        ("forked", lambda row: row["prompt"] + row["chosen"]),
        ("forked/rejected", lambda row: row["prompt"] + row["rejected"]),
        ("noted", lambda row: row["prompt"] + row["chosen"]),
        ("noted/rejected", lambda row: row["prompt"] + row["rejected"]),
    ):
        name = form.partition("/")[0]
        if not (folder / f"{name}.jsonl").exists():
            continue
        lines, table = load(folder, f"{name}.jsonl"), load(folder, f"{name}.parquet")
        as_json = [name for name in table.column_names if name in JSON_COLUMNS]
        told[form] = rendered(render, lines, of)
        assert told[form] == rendered(render, (from_text(row, as_json) for row in table), of)
    if (folder / "tokens.parquet").exists():
        tokens = load(folder, "tokens.parquet")
        told["trained_tokens"] = sum(sum(row["loss_mask"]) for row in tokens)
        assert all(len(row["token_ids"]) == len(row["loss_mask"]) for row in tokens)
        told["records"] = records(folder)
    told["rewards"] = [row["rewards"] for row in load(folder, "groups.parquet")]
    told["traces"] = [
        {"session_id": row["session_id"], "asked": row["num_user_messages"],
         "roles": [message["role"] for message in row["messages"]]}
        for row in load(folder, "traces/*.jsonl")
    ]  # fmt: skip
    return told


JSON_COLUMNS = {
    "messages", "tools", "reply", "completion", "prompt", "completions", "chosen", "rejected",
    "options", "failures",
}  # fmt: skip


def records(folder: Path) -> dict[str, Any]:
    """The records as OpenEnv's own collector keeps them; it must go on in the same file."""
    serializer = RolloutSerializer(folder)
    plain = [json.loads(line) for line in serializer.results_path.read_text().splitlines()]
    made = [EpisodeRecord(**one) for one in plain]
    assert [one.to_dict() for one in made] == plain
    ids = serializer.collected_episode_ids()
    serializer.write_episode(EpisodeRecord("ep-more", [], 0.5, True, [], {}, {}, {}))
    assert serializer.collected_episode_ids() == {*ids, "ep-more"}
    loaded = load(folder, "results.jsonl")
    return {"ids": sorted(ids), "rewards": [one.reward for one in made], "rows": len(loaded)}


if __name__ == "__main__":
    disable_progress_bars()
    print(json.dumps([main(Path(folder)) for folder in sys.argv[1:]]))
