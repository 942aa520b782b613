// @ts-check
// Formats foreign text and our figures; pure except `said`.

import { h, setText } from "./dom.js";

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;

/** Text without invisible characters and those that change direction. @param {unknown} text @returns {string} */
export function plain(text) {
  return String(text ?? "").replace(UNSEEN, "").trim();
}

/**
 * Cut to whole characters, with an ellipsis for what is left out.
 * @param {string} text @param {number} limit
 */
export function clip(text, limit) {
  if (text.length <= limit) return text;
  const cut = Array.from(text.slice(0, limit + 2)).join("").slice(0, limit - 1);
  return `${cut.replace(/[\ud800-\udbff]$/u, "").trimEnd()}…`;
}

/** @param {unknown} value an argument of a tool call @param {number} [limit] */
export function argumentText(value, limit = 80) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return clip(plain(text), limit);
}

/** `12` as `12 ms`, `2140` as `2.1 s`. @param {number} seconds */
export function duration(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 0.001) return "<1 ms";
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

/** A reward or a sum of rewards, signed, with at most three decimals. @param {unknown} value */
export function rewardText(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "";
  const rounded = Math.round(Math.abs(value) * 1000) / 1000;
  return rounded === 0 ? "0" : `${value < 0 ? "−" : "+"}${rounded}`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** A cost to the last digit that the record has. @param {number} cost in US dollars, as the catalogue's prices are */
export const exactCost = (cost) => `US$${cost === 0 ? "0" : cost.toFixed(6).replace(/0{1,4}$/, "")}`;

/** `max_overs` as `max overs`. @param {string} name */
export const words = (name) => plain(name).replaceAll("_", " ");

/**
 * How long ago, in words that stay true for a while.
 * @param {string} at RFC 3339 @param {number} now_ms
 */
export function ago(at, now_ms) {
  const minutes = Math.round((now_ms - Date.parse(at)) / 60_000);
  if (Number.isNaN(minutes)) return "";
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 60 * 24) return `${Math.round(minutes / 60)} h ago`;
  return new Date(at).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}

/**
 * An element for text that a model or a stranger wrote: isolated, clipped, with a control that shows the rest.
 * @param {string} tag @param {string} className @param {number} limit characters shown at first
 * @returns {{element: HTMLElement, show: (text: unknown) => void}}
 */
export function said(tag, className, limit) {
  const text = h("bdi", { dir: "auto" });
  const more = h("button", { class: "more", type: "button", hidden: true, "aria-expanded": "false" }, "more");
  const element = h(tag, { class: className }, text, more);
  let whole = "";
  let open = false;
  const draw = () => {
    setText(text, open ? whole : clip(whole, limit));
    more.hidden = whole.length <= limit;
    if (!more.hidden) setText(more, open ? "less" : `more (${plural(whole.length, "character")})`);
    more.setAttribute("aria-expanded", String(open));
  };
  more.addEventListener("click", () => { open = !open; draw(); });
  return {
    element,
    show(value) {
      const next = plain(value);
      if (next === whole) return;
      whole = next;
      open = false;
      draw();
    },
  };
}
