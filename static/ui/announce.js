// @ts-check
// What a screen reader hears: big moments, at most one every few seconds, never the backlog.

import { setText } from "./dom.js";
import { clip, plain } from "./text.js";

const EVERY_MS = 4_000;

/** @param {HTMLElement} region */
export function mountAnnouncer(region) {
  let heard = -1;
  let spokenAt = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  let next = "";
  let quiet = false;
  const speak = () => {
    timer = null;
    spokenAt = performance.now();
    if (!quiet) setText(region, next);
  };
  return {
    /** Leave speaking to the page's own voice, or take it up again. @param {boolean} wanted */
    beQuiet(wanted) { quiet = wanted; },
    /** @param {Record<string, any>} state @param {{jumped: boolean}} view */
    update(state, view) {
      const lines = Object.values(state.feed ?? {}).filter((line) => line.priority <= 1);
      const last = lines.reduce((best, line) => (line.seq > (best?.seq ?? -1) ? line : best), /** @type {any} */ (null));
      if (!last || last.seq === heard) return;
      const isNews = heard !== -1 && last.seq > heard && !view.jumped;
      heard = last.seq;
      if (!isNews) return;
      next = clip(`${plain(last.at)} ${plain(last.label)} ${plain(last.text)}`.trim(), 300);
      timer ??= setTimeout(speak, Math.max(0, EVERY_MS - (performance.now() - spokenAt)));
    },
  };
}
