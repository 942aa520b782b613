// @ts-check
// The asking for the operator's token where a person plays.

import { rememberToken } from "../live/api.js";
import { h } from "./dom.js";

/** @param {() => void} onUse hears that there is a token now */
export function makeTokenForm(onUse) {
  const token = h("input", { class: "input", id: "seat-token", type: "password", autocomplete: "off" });
  const element = h("form", { class: "seat__token", hidden: true },
    h("label", { for: "seat-token" }, "Operator token, kept in this tab only"), token, h("button", { class: "button" }, "Use it"));
  element.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    rememberToken(token.value);
    token.value = "";
    element.hidden = true;
    onUse();
  });
  return {
    element,
    ask() {
      element.hidden = false;
      token.focus();
    },
    hide() { element.hidden = true; },
  };
}
