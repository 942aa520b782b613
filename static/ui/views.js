// @ts-check
// What a phone shows under the score: the play with the minds, the minds alone, the commentary or the boards.

import { h } from "./dom.js";

const VIEWS = [["live", "Live"], ["mind", "Mind"], ["commentary", "Commentary"], ["board", "Cards"]];

/** @param {HTMLElement} nav @param {HTMLElement} stage whose `data-view` the styles go by */
export function mountViews(nav, stage) {
  const choose = (/** @type {string} */ name) => {
    stage.dataset.view = name;
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.dataset.shows === name));
  };
  const show = (/** @type {string} */ name) => {
    choose(name);
    const { top } = stage.getBoundingClientRect();
    if (top < 0) scrollTo({ top: scrollY + top });
  };
  const buttons = VIEWS.map(([name, label]) => h("button", { class: "views__one", type: "button", data: { shows: name }, on: { click: () => show(name) } }, label));
  nav.append(...buttons);
  stage.addEventListener("show-view", (event) => show(/** @type {CustomEvent<string>} */ (event).detail));
  choose("live");
}
