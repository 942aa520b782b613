// @ts-check
// Find in the conversation: marks every place, goes from one to the next, opens what is folded there.

import { h, setText } from "./dom.js";
import { plain } from "./text.js";

/** @typedef {import("./message.js").Block} Block */
/** @typedef {{block: Block, at: number, length: number}} Place */

const WAIT_MS = 120;
/** Most places that are counted. */
const MOST = 5_000;
/** Places before and after the current one that are marked: thousands of marks would make the page slow. */
const NEAR = 100;

/** Every place of a text. @param {Block[]} blocks @param {string} wanted @returns {Place[]} */
export function placesOf(blocks, wanted) {
  if (!wanted) return [];
  const pattern = new RegExp(wanted.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "giu");
  /** @type {Place[]} */ const found = [];
  for (const block of blocks) {
    for (const { index, 0: text } of block.text.matchAll(pattern)) {
      found.push({ block, at: index, length: text.length });
      if (found.length === MOST) return found;
    }
  }
  return found;
}

/** Mark ranges, where the browser can. @param {string} name @param {AbstractRange[]} ranges */
function mark(name, ranges) {
  if (typeof Highlight === "undefined" || !CSS.highlights) return;
  CSS.highlights.set(name, new Highlight(...ranges));
}

/** The range of a place; null while it is folded away. @param {Place} place @returns {StaticRange | null} */
function rangeOf({ block: { node, text }, at, length }) {
  const end = at + length;
  if (end > node.data.length || (end === node.data.length && node.data !== text)) return null;
  return new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: end });
}

/** Where a place is in the window. @param {Place} place */
function boxOf({ block: { node }, at, length }) {
  const range = document.createRange();
  range.setStart(node, at);
  range.setEnd(node, at + length);
  return range.getBoundingClientRect();
}

/** @param {HTMLElement} form @param {() => Block[]} blocks */
export function mountFind(form, blocks) {
  const input = h("input", { class: "input find__text", type: "search", "aria-label": "Find in the conversation", placeholder: "Find in the conversation", enterkeyhint: "search" });
  const count = h("span", { class: "find__count", role: "status" });
  const step = (/** @type {-1 | 1} */ by, /** @type {string} */ label, /** @type {string} */ sign) => h("button", { class: "tool", type: "button", hidden: true, "aria-label": label, on: { click: () => move(by) } }, sign);
  const buttons = [step(-1, "Previous match", "↑"), step(1, "Next match", "↓")];
  form.append(h("span", { class: "find__key", "aria-hidden": "true" }, "/"), input, count, ...buttons);
  /** @type {Place[]} */ let places = [];
  let now = -1;
  let searched = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let waiting;

  function search() {
    clearTimeout(waiting);
    searched = plain(input.value);
    places = placesOf(blocks(), searched);
    now = -1;
    for (const button of buttons) button.hidden = places.length === 0;
    if (places.length) move(1);
    else draw();
  }

  function draw() {
    setText(count, !searched ? "" : places.length ? `${(now + 1).toLocaleString("en")} of ${places.length.toLocaleString("en")}${places.length === MOST ? " or more" : ""}` : "No match");
    mark("find", places.slice(Math.max(0, now - NEAR), now + NEAR).map(rangeOf).filter((range) => range !== null));
    const range = places[now] && rangeOf(places[now]);
    mark("find-now", range ? [range] : []);
  }

  /** @param {-1 | 1} by */
  function move(by) {
    if (!places.length) return;
    now = (now + by + places.length) % places.length;
    const { block } = places[now];
    block.reveal();
    draw();
    block.element.scrollIntoView({ block: "nearest" });
    requestAnimationFrame(() => {
      const box = places[now] && boxOf(places[now]);
      if (box && (box.top < innerHeight * 0.2 || box.bottom > innerHeight * 0.8)) scrollBy({ top: box.top - innerHeight * 0.4 });
    });
  }

  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, WAIT_MS); });
  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      if (plain(input.value) !== searched) search();
      else move(event.shiftKey ? -1 : 1);
    }
    if (event.key === "Escape") {
      event.preventDefault();
      if (input.value === "") return input.blur();
      input.value = "";
      search();
    }
  });
  return { focus: () => { input.focus(); input.select(); }, /** Search again, as there are more messages. */ again: () => { if (searched) search(); } };
}
