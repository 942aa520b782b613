"""Modules joined into one script do what they did one by one, or are refused."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from server.http.assets import (
    ENTRIES,
    ModuleJoinError,
    Panels,
    folder,
    join_modules,
    join_sheets,
    joined_scripts,
)

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


MODULES = {
    "main.js": """// the entry
import { grow, Tree as Plant } from "./live/tree.js";
import * as words from "./words.js";
import { later } from "./live/later.js";
console.log(words.say(new Plant().name), grow`a // b ${1 + 1} /* c */`, await later(), /[/*]+"/.test('/"'));
export default { words };
""",
    "live/tree.js": """import { say } from "../words.js";
console.log("tree");
const hidden = "tree";
export class Tree { name = say(hidden); }
export function grow(parts, ...values) { return parts.raw.join("|") + values.join(","); }
""",
    "live/later.js": """export { say } from "../words.js";
const hidden = 7;
export async function later() { return hidden; }
""",
    "words.js": """/** A comment. */
console.log("words");
const hidden = "!";
export const say = (word) => word + hidden;
""",
}


@needs_node
def test_what_is_joined_does_what_the_modules_do_each_once_and_in_their_order(tmp_path: Path) -> None:
    """Also names that two modules each have for themselves, templates, expressions like comments."""
    root = write(tmp_path, MODULES)
    (root / "joined.mjs").write_text(join_modules(root, "main.js")["main.js"], "utf-8")
    (root / "package.json").write_text('{"type": "module"}', "utf-8")
    apart, joined = (
        subprocess.run(["node", root / name], capture_output=True, text=True, check=True).stdout
        for name in ("main.js", "joined.mjs")
    )
    assert joined == apart == "words\ntree\ntree!! a // b | /* c */2 7 true\n"


@needs_node
def test_what_is_used_later_is_a_script_of_its_own_and_shares_what_is_there(tmp_path: Path) -> None:
    """The same modules with the same state in both, whatever folder each is in."""
    files = {
        "main.js": """import { count } from "./live/count.js";
import { open } from "./ui/open.js";
count();
open().then(({ seat }) => console.log(seat(), count()));
""",
        "live/count.js": "let counted = 0;\nexport const count = () => { counted += 1; return counted; };\n",
        "ui/open.js": 'export const open = () => import("./seat.js");\n',
        "ui/seat.js": """import { count } from "../live/count.js";
import { label } from "./label.js";
export function seat() { return label(count()); }
""",
        "ui/label.js": "export const label = (number) => `seat ${number}`;\n",
        "package.json": '{"type": "module"}',
    }
    apart, joined = write(tmp_path / "apart", files), tmp_path / "joined"
    scripts = join_modules(apart, "main.js")
    assert set(scripts) == {"main.js", "ui/seat.js"}
    write(joined, {**scripts, "package.json": files["package.json"]})
    for root in (apart, joined):
        done = subprocess.run(["node", root / "main.js"], capture_output=True, text=True, check=True)
        assert done.stdout == "seat 2 3\n"


@needs_node
def test_what_two_later_scripts_need_is_there_once(tmp_path: Path) -> None:
    later = 'import { a } from "./shared.js";\nexport const {NAME} = a;\n'
    files = {
        "main.js": """Promise.all([import("./one.js"), import("./two.js")])
  .then(([{ one }, { two }]) => console.log(one === two && one.deep));
""",
        "one.js": later.replace("{NAME}", "one"),
        "two.js": later.replace("{NAME}", "two"),
        "shared.js": 'import { deep } from "./deep.js";\nexport const a = { deep };\n',
        "deep.js": "export const deep = 7;\n",
        "package.json": '{"type": "module"}',
    }
    scripts = join_modules(write(tmp_path / "apart", files), "main.js")
    assert set(scripts) == {"main.js", "one.js", "two.js"}
    root = write(tmp_path / "joined", {**scripts, "package.json": files["package.json"]})
    done = subprocess.run(["node", root / "main.js"], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


@pytest.mark.parametrize(
    "text",
    [
        "export let count = 0;",
        "export default 7;",
        "export { a };",
        'import "./words.js";',
        "const found = await 7;",
        "export const here = import.meta.url;",
        'import { main } from "./main.js";',
    ],
)
def test_what_would_do_something_else_is_refused(tmp_path: Path, text: str) -> None:
    root = write(tmp_path, {"main.js": 'import { a } from "./other.js";\n', "other.js": f"{text}\n"})
    with pytest.raises(ModuleJoinError, match=r"\.js"):
        join_modules(root, "main.js")


def test_what_cannot_be_joined_is_told_and_sent_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = write(tmp_path, {"panel.js": 'import x from "./other.js";\n', "other.js": "export default 7;\n"})
    with caplog.at_level(logging.WARNING):
        assert joined_scripts(root, ("panel.js",)) == {}
    assert "one by one" in caplog.text


def test_two_pages_do_not_fetch_the_same_module_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would take what it shares with its page from the other page's script."""
    fetches = (
        'import { a } from "./a.js";\nexport const use = async () => a + (await import("./late.js")).b;\n'
    )
    files = {
        "a.js": "export const a = 1;\n",
        "late.js": 'import { a } from "./a.js";\nexport const b = a;\n',
        "one.js": fetches,
        "two.js": fetches,
    }
    assert set(joined_scripts(write(tmp_path, files), ("one.js", "two.js"))) == {"one.js", "late.js"}
    assert (
        "late.js is imported dynamically by another page too; import it statically in two.js" in caplog.text
    )


def test_every_script_of_ours_can_be_joined() -> None:
    assert set(joined_scripts(folder("static"), ENTRIES)) >= set(ENTRIES)
    assert all(
        Panels(join=True).modules(world) == ["panel.js"] for world in ("cricket", "collider", "counting")
    )


@needs_node
def test_every_joined_script_is_well_formed(tmp_path: Path) -> None:
    for entry in ENTRIES:
        for script in join_modules(folder("static"), entry).values():
            (tmp_path / "one.mjs").write_text(script, "utf-8")
            subprocess.run(["node", "--check", tmp_path / "one.mjs"], check=True)


def test_sheets_are_joined_in_their_order_without_comments(tmp_path: Path) -> None:
    files = {
        "a.css": "/* one */\n.a , .b {\n  color : red ;\n}\n",
        "b.css": ".a:hover > b { margin: 0 auto; }",
    }
    root = write(tmp_path, files)
    assert join_sheets(root / name for name in files) == (".a,.b{color :red}.a:hover>b{margin:0 auto}")


def test_no_sheet_of_ours_holds_a_string_that_joining_would_change() -> None:
    """Spaces around braces, commas and semicolons go, which only strings would notice."""
    sheets = [*folder("static").rglob("*.css"), *Path("spectator/environments").rglob("panel.css")]
    assert len(sheets) > 10
    for sheet in sheets:
        for text in re.findall(r""""[^"\n]*"|'[^'\n]*'""", sheet.read_text("utf-8")):
            assert not re.search(r"\s\s|: |[{};,>]", text), (sheet, text)


def test_what_stands_in_a_template_stays_as_it_is(tmp_path: Path) -> None:
    """Spaces, marks of comments and further templates in it included."""
    line = "const a = (b) => `${b ? ` // ${b} %` : `, none`} /* of them */ at all`;"
    (tmp_path / "main.js").write_text(f"// Says.\n  /** @type {{any}} */ {line}\n", encoding="utf-8")
    assert join_modules(tmp_path, "main.js") == {"main.js": f"{line}\n"}
