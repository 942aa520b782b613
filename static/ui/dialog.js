// @ts-check
// Owns what opens above the page.

import { h } from "./dom.js";

/** A dialog that Escape, its cross and a click beside it close. @param {string} title @param {...any} content @returns {HTMLDialogElement} */
export function makeDialog(title, ...content) {
  const name = `dialog-${title.toLowerCase().replace(/\W+/g, "-")}`;
  const dialog = h("dialog", { "aria-labelledby": name },
    h("div", { class: "dialog__head" }, h("h2", { id: name }, title),
      h("button", { class: "tool", type: "button", "aria-label": "Close", on: { click: () => dialog.close() } }, "✕")),
    ...content);
  dialog.addEventListener("click", (/** @type {Event} */ event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  return dialog;
}

export const KEYS = [
  [["Space"], "play or stand still"],
  [["←", "→"], "one beat back or on"],
  [["⇧ ←", "⇧ →"], "one decision back or on"],
  [["[", "]"], "the big moment before or after"],
  [["Home", "End"], "the beginning, the newest"],
  [["L"], "go live"],
  [["−", "+"], "slower, faster"],
  [["M"], "sound on or off"],
  [["T"], "evening or day"],
  [["1", "9"], "in your own seat: choose the action"],
  [["Enter"], "in your own seat: do it"],
  [["?"], "this help"],
];

export function makeHelp() {
  const rows = KEYS.flatMap(([keys, meaning]) => [
    h("dt", {}, .../** @type {string[]} */ (keys).flatMap((key) => [h("kbd", {}, key), " "])), h("dd", {}, meaning)]);
  return makeDialog("Keys", h("dl", { class: "keys" }, ...rows));
}
