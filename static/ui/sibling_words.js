// @ts-check
// The dialog with the words of one sibling at one decision: its prompt, the reply, and their tokens.

import { makeDialog } from "./dialog.js";
import { h, replace, setText } from "./dom.js";
import { mountCalls } from "./inspected_calls.js";

/** @param {string} root @returns {(asked: {id: string, key: string, where: string, seq: number, turn: number, actor: string}) => void} opens it at a decision */
export function mountWords(root) {
  const where = h("h3", { class: "inspect__title" });
  const place = h("div");
  const dialog = makeDialog("Prompt and reply", where, place);
  dialog.classList.add("inspect");
  /** @type {Map<string, ReturnType<typeof mountCalls>>} */ const known = new Map();
  return ({ id, key, where: at, ...made }) => {
    const calls = known.get(id) ?? mountCalls(root, id);
    known.set(id, calls);
    setText(where, `Sibling ${key}, ${at}`);
    replace(place, calls.element);
    calls.show(made, 1);
    calls.element.open = true;
    if (!dialog.open) dialog.showModal();
  };
}
