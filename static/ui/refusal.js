// @ts-check
// How the server's refusal of a start is shown: what is wrong, what runs instead, the token that is needed.

import { rememberToken } from "../live/api.js";
import { h, replace } from "./dom.js";
import { clip, plain, words } from "./text.js";

/**
 * @param {HTMLElement} place @param {import("../live/api.js").Answer} answer @param {string} root
 * @param {{again: () => void, more?: any[]}} further what tries again, and what else is offered
 */
export function showRefusal(place, answer, root, { again, more = [] }) {
  const busy = answer.status === 409;
  const running = busy ? answer.body?.running ?? [] : [];
  const lines = answer.wrong.map(({ field, rule }) => h("li", {}, h("code", {}, field), " ", h("bdi", {}, clip(plain(rule), 300))));
  replace(place, h("p", {}, h("b", {}, answer.wrong.length ? "This match cannot start:" : busy ? "A match is already running." : answer.message)),
    lines.length ? h("ul", {}, ...lines) : null,
    ...running.slice(0, 5).map((/** @type {any} */ one) => h("p", {}, h("a", { href: new URL(`watch/${encodeURIComponent(one.episode_id)}`, root).href }, `Watch ${plain(one.captain_label)} play ${words(one.environment)}`), ", or start yours when it has ended.")),
    running.length > 5 ? h("p", {}, h("a", { href: new URL("wall", root).href }, `See all ${running.length} on the wall`)) : null,
    answer.status === 401 ? tokenRow(again) : null, ...more);
  place.hidden = false;
}

/** @param {() => void} again */
function tokenRow(again) {
  const token = h("input", { class: "input", type: "password", autocomplete: "off", "aria-label": "Operator token" });
  const use = h("button", { class: "button", type: "button", on: { click: () => { rememberToken(token.value); again(); } } }, "Use this token");
  return h("div", { class: "dialog__row" }, token, use, h("small", {}, "kept in this tab only"));
}
