// @ts-check
// Notes and labels that people give to a decision, or to the whole episode: read by everyone, written by operators.

import { call, get } from "../live/api.js";
import { h, replace, setText } from "./dom.js";
import { ago, clip, plain } from "./text.js";

const LONGEST = 2_000;
const LABELS = [["good", "good"], ["bad", "bad"], ["look", "worth a look"], ["", "no label"]];

/** @param {string} root @param {string} episodeId */
export function mountNotes(root, episodeId) {
  const path = `api/episodes/${encodeURIComponent(episodeId)}/notes`;
  const list = h("ul", { class: "notes__list" });
  const status = h("p", { class: "dialog__say", role: "status" });
  const label = h("select", { class: "input", id: "note-label" }, ...LABELS.map(([value, name]) => h("option", { value }, name)));
  const text = h("textarea", { class: "input", id: "note-text", rows: "2", maxlength: String(LONGEST) });
  const author = h("input", { class: "input", id: "note-author", maxlength: "64", autocomplete: "nickname" });
  const whole = h("input", { type: "checkbox", id: "note-whole" });
  const field = (/** @type {string} */ name, /** @type {HTMLElement} */ control) => h("div", { class: "field" }, h("label", { for: control.id }, name), control);
  const form = h("form", { class: "notes__form" }, field("Label", label), field("Your name", author), field("Note", text), h("p", {}, whole, h("label", { for: "note-whole" }, " on the whole episode")), h("button", { class: "button" }, "Save note"));
  const element = h("details", { class: "inspect__part notes" }, h("summary", {}, "Notes and labels"), list, form, status);
  let turn = 0;
  /** @type {any[]} */ let notes = [];
  let known = false;

  async function fetchNotes() {
    const answer = await get(root, path);
    setText(status, answer.ok ? "" : answer.message);
    if (answer.ok) notes = answer.body.notes;
    known = answer.ok;
    draw();
  }

  function draw() {
    const shown = notes.filter((note) => note.turn === turn || note.turn === null);
    replace(list, ...(shown.length ? shown : [null]).map((note) => (note === null ? h("li", { class: "quiet" }, known ? "No notes yet." : "")
      : h("li", {}, note.label ? h("span", { class: "badge" }, clip(plain(note.label), 32)) : null, " ", h("bdi", { dir: "auto" }, clip(plain(note.text), LONGEST)), " ",
        h("span", { class: "quiet" }, `${plain(note.author) || "anonymous"}, ${ago(note.at, Date.now())}${note.turn === null ? ", on the whole episode" : ""} `), h("button", { class: "more", type: "button", on: { click: () => void back(note.note_id) } }, "delete")))));
  }

  /** @param {string} id */
  async function back(id) {
    const answer = await call(root, `${path}/${encodeURIComponent(id)}`, {}, "DELETE");
    if (answer.ok) return fetchNotes();
    setText(status, answer.message);
  }

  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    const answer = await call(root, path, { label: label.value, text: text.value, author: author.value, ...(whole.checked ? {} : { turn }) });
    if (!answer.ok) return setText(status, [answer.message, ...answer.wrong.map(({ field: name, rule }) => `${name} ${rule}`)].join(" "));
    text.value = "";
    return fetchNotes();
  });
  element.addEventListener("toggle", () => { if (element.open && !known) void fetchNotes(); });
  return {
    element,
    /** @param {number} of turn of the decision */
    show(of) {
      turn = of;
      draw();
    },
  };
}
