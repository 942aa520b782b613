// @ts-check
// The ribbon under the timeline: who made the decisions, one row a seat, from the beginning to now.

import { SOURCE_WORDS, stretches } from "../live/decisions.js";
import { h } from "./dom.js";

/** Colours by kind of decider, from the page's own. @type {Record<string, string>} */
const COLOURS = { model: "var(--willow)", fallback: "var(--cherry)", random: "var(--grass)", human: "var(--sky)" };
const OTHERS = "var(--edge)";

/** @param {import("../live/timeline.js").Timeline} timeline */
export function makeRibbon(timeline) {
  const element = h("div", { class: "player__ribbon", "aria-hidden": "true" });
  let drawn = "";
  return {
    element,
    /** @param {number} last the last stop */
    update(last) {
      const now = `${timeline.firstSeq} ${last} ${timeline.decisions.length}`;
      if (now === drawn) return;
      drawn = now;
      const { agent, seats = {} } = timeline.headState.episode ?? {};
      const actors = Object.keys(seats).sort((a, b) => Number(b === agent) - Number(a === agent));
      element.replaceChildren(...(last ? actors : []).map((actor) => {
        const found = stretches(timeline.decisions, actor, (seq) => timeline.stopAt(seq));
        const row = h("i", { class: "player__deciders", title: `Decided by: ${[...new Set(found.map(({ source }) => SOURCE_WORDS[source] ?? source))].join(", ")}` });
        row.style.backgroundImage = gradient(found, last);
        return row;
      }));
    },
  };
}

/** @param {{source: string, from: number, to: number}[]} found @param {number} last */
function gradient(found, last) {
  const share = (/** @type {number} */ stop) => `${(100 * Math.min(1, stop / last)).toFixed(2)}%`;
  const parts = found.map(({ source, from, to }) => `${COLOURS[source] ?? OTHERS} ${share(from)} ${share(to)}`);
  const begun = found[0] ? [`transparent 0 ${share(found[0].from)}`] : [];
  return parts.length ? `linear-gradient(90deg, ${[...begun, ...parts].join(", ")})` : "none";
}
