// @ts-check
// A choice of the seat: cards to tap or to reach with the arrow keys, each with its chance and risk.

import { oddsWords, percent } from "./seat_draft.js";

/** @typedef {import("./seat_draft.js").Odds} Odds */
/** @typedef {{value: string, label: string, note?: string, odds?: Odds, merit?: number, picture?: Element | null, spoken?: string}} Option */

/**
 * @param {any} ui @param {{name: string, title: string, look?: string, map?: {rows: string[], columns: string[]}}} looks `map`: the names around a choice in two dimensions
 * @param {(value: string) => void} onChoose
 */
export function makeChoice({ h, keyed, setText, setAttribute, replace }, { name, title, look = "cards", map }, onChoose) {
  const cells = h("div", { class: `pick__cells pick__cells--${look}` });
  const names = (/** @type {string} */ side) => h("div", { class: `pick__${side}`, "aria-hidden": "true" }, .../** @type {any} */ (map)[side].map((/** @type {string} */ one) => h("span", {}, one)));
  const element = h("fieldset", { class: `pick pick--${name}` }, h("legend", { class: "pick__title" }, title), map ? h("div", { class: "pick__map" }, names("columns"), names("rows"), cells) : cells);
  const inputs = () => /** @type {HTMLInputElement[]} */ ([...cells.querySelectorAll("input")]);
  cells.addEventListener("change", (/** @type {any} */ event) => onChoose(event.target.value));
  cells.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const across = map?.columns.length ?? 0;
    const step = { ArrowUp: -across, ArrowDown: across }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = inputs();
    const to = all[all.indexOf(/** @type {any} */ (event.target)) + step];
    if (!to) return;
    to.focus();
    to.click();
  });

  const create = (/** @type {Option} */ { value }) => h("label", { class: "pick__cell" },
    h("input", { type: "radio", name: `seat-${name}`, value, autocomplete: "off" }), h("span", { class: "pick__picture" }), h("span", { class: "pick__label" }), h("span", { class: "pick__note" }), h("span", { class: "pick__odds" }));
  return {
    element,
    /** @param {Option[]} options @param {string} chosen */
    update(options, chosen) {
      element.hidden = options.length < 2;
      const write = (/** @type {any} */ cell, /** @type {Option} */ { value, label, note = "", odds, merit = 0, picture = null, spoken = label }) => {
        const [input, drawn, words, more, figures] = cell.children;
        input.checked = value === chosen;
        setAttribute(input, "aria-label", [spoken, note, odds && oddsWords(odds)].filter(Boolean).join(": "));
        if (picture) replace(drawn, picture);
        setText(words, label);
        setText(more, note);
        setText(figures, odds ? `${odds.runs.toFixed(1)} · ${percent(odds.wicket)}` : "");
        cell.classList.toggle("pick__cell--best", merit === 1);
        cell.style.setProperty("--merit", `${Math.round(30 * merit)}%`);
      };
      keyed(cells, options, (/** @type {Option} */ { value }) => `of-${value}`, (/** @type {Option} */ option) => { const cell = create(option); write(cell, option); return cell; }, write);
    },
    /** @param {string} value */
    choose(value) { inputs().find((one) => one.value === value)?.click(); },
  };
}
