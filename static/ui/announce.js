// @ts-check
// What a screen reader hears: every few seconds the greatest of the moments since, never the backlog.

import { setText } from "./dom.js";
import { clip, plain } from "./text.js";

const EVERY_MS = 4_000;
/** Characters said at once. */
const MOST = 300;

/** @param {HTMLElement} region */
export function mountAnnouncer(region) {
  /** Number of the newest line that needs no saying; null before the first line of all. @type {number | null} */ let heard = null;
  /** What waits to be said. @type {{priority: number, words: string}[]} */
  let waiting = [];
  let spokenAt = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  let quiet = false;
  const speak = () => {
    timer = null;
    spokenAt = performance.now();
    const most = Math.min(...waiting.map(({ priority }) => priority));
    const told = waiting.filter(({ priority }) => priority === most).map(({ words }) => words).join(" ");
    waiting = [];
    if (!quiet) setText(region, clip(told, MOST));
  };
  return {
    /** Pause while the page's own voice speaks. @param {boolean} wanted */
    beQuiet(wanted) { quiet = wanted; },
    /** @param {Record<string, any>} state @param {{jumped: boolean}} view */
    update(state, view) {
      const lines = Object.values(state.feed ?? {});
      const last = lines.reduce((newest, line) => Math.max(newest, line.seq), -1);
      if (last < 0 || last === heard) return;
      const from = heard === null || view.jumped ? last : heard;
      heard = last;
      const news = lines.filter((line) => line.priority <= 1 && line.seq > from);
      if (!news.length) return;
      waiting.push(...news.map((line) => ({ priority: line.priority, words: `${plain(line.at)} ${plain(line.label)} ${plain(line.text)}`.trim() })));
      timer ??= setTimeout(speak, Math.max(0, EVERY_MS - (performance.now() - spokenAt)));
    },
  };
}
