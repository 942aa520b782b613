// @ts-check
// Owns the list of commentary, newest first.

import { h, keyed } from "./dom.js";
import { clip, plain, said } from "./text.js";

const LONGEST = 400;
const MOST = 60;

/** @param {HTMLElement} card */
export function mountFeed(card) {
  const list = h("ol", { class: "feed__list", tabindex: "0", "aria-label": "Commentary, newest first" });
  const empty = h("p", { class: "feed__empty" }, "The commentary begins with the first event worth a line.");
  card.append(h("header", { class: "card__head" }, h("h2", {}, "Commentary")), empty, list);
  /** @type {unknown} */
  let drawn = null;
  return {
    /** @param {Record<string, any>} state @param {{animate: boolean}} view */
    update(state, view) {
      if (state.feed === drawn) return;
      drawn = state.feed;
      const lines = Object.entries(state.feed ?? {}).sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, MOST);
      empty.hidden = lines.length > 0;
      list.hidden = lines.length === 0;
      const first = list.childElementCount === 0;
      keyed(list, lines, ([key]) => key, ([, line]) => lineElement(line, view.animate && !first));
    },
  };
}

/** @param {Record<string, any>} line @param {boolean} isNew */
function lineElement(line, isNew) {
  const text = said("p", "feed__text", LONGEST);
  text.show(line.text);
  const mark = clip(plain(line.label), 12);
  return h("li", { class: isNew ? "feed__line feed__line--new" : "feed__line", data: { priority: line.priority ?? 3 } },
    h("span", { class: "feed__at" }, h("bdi", {}, clip(plain(line.at), 8))),
    h("span", { class: "feed__label" }, h("bdi", {}, mark)), text.element);
}
