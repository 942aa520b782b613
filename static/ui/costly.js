// @ts-check
// From one decision that cost much to the next: those that lost points of the world's own, as its panel reads them off the record.

import { pointsText } from "../live/decisions.js";
import { h, setText } from "./dom.js";

/** Points from which on a lost decision is gone to. */
export const COSTLY = 0.2;
const SAID_MS = 6_000;

/** @typedef {import("../live/decisions.js").Decided} Decided */

/** Those that cost so much, in order. @param {Decided[]} decisions */
export const costly = (decisions) => decisions.filter((made) => (made.points ?? 0) <= -COSTLY);

/**
 * The one after or before a place, and which it is of them, from 1; null where there is none further on.
 * @param {Decided[]} decisions @param {number} seq of the decision where one stands @param {-1 | 1} by
 */
export function nextCostly(decisions, seq, by) {
  const all = costly(decisions);
  const made = by > 0 ? all.find((one) => one.seq > seq) : all.findLast((one) => one.seq < seq);
  return made ? { made, number: all.indexOf(made) + 1, count: all.length } : null;
}

/**
 * @param {HTMLElement} card that shows the result @param {{timeline: import("../live/timeline.js").Timeline, seq: () => number, wholeRecord: () => Promise<void>}} page
 * @returns {(by: -1 | 1) => Promise<Decided | null>} where to go; shows what it found
 */
export function mountCostly(card, { timeline, seq, wholeRecord }) {
  const status = h("p", { class: "quiet costly", role: "status" });
  card.querySelector(".card__head")?.after(status);
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let clearing;
  return async (by) => {
    if (!timeline.complete) await wholeRecord();
    const here = timeline.decisions.findLast((made) => made.seq <= seq())?.seq ?? 0;
    const found = nextCostly(timeline.decisions, here, by);
    const where = by > 0 ? "later" : "earlier";
    setText(status, found ? `Cost ${pointsText(found.made.points)} points: ${found.number} of ${found.count} that cost ${COSTLY} or more` : `No ${where} decision cost ${COSTLY} points or more`);
    clearTimeout(clearing);
    clearing = setTimeout(() => setText(status, ""), SAID_MS);
    return found?.made ?? null;
  };
}
