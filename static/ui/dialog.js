// @ts-check
// What opens above the page.

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
