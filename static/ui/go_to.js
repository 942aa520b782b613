// @ts-check
// Links to moments: from a line of commentary, a bar of a chart, a mark.

import { h } from "./dom.js";

/** @typedef {import("../live/player.js").Player} Player */
/** @typedef {import("../live/timeline.js").Timeline} Timeline */

/**
 * A link to a moment, by the number of its event or by what its world calls it.
 * @param {string | number} moment @param {import("./dom.js").Props} props @param {...any} children
 */
export function momentLink(moment, props, ...children) {
  return h("a", { href: `?${typeof moment === "number" ? "seq" : "at"}=${encodeURIComponent(moment)}`, ...props, data: { moment, ...props.data } }, ...children);
}

/**
 * Number of the event of a moment's name; null if it is unknown.
 * @param {Timeline} timeline @param {string} moment
 */
export function seqOf(timeline, moment) {
  const seq = /^\d+$/.test(moment) ? Number(moment) : timeline.placeOf(moment);
  return seq === undefined || seq > timeline.headSeq ? null : seq;
}

/**
 * The event of an address: of that number, or the end of the named event's turn; null if it is unknown.
 * @param {Timeline} timeline @param {string} moment
 */
export function placeNamed(timeline, moment) {
  const seq = seqOf(timeline, moment);
  return seq === null || String(seq) === moment ? seq : timeline.turnEnd(seq);
}

/** When the moment that one went to has been drawn, in milliseconds. */
const DRAWN_MS = 300;

/**
 * Go to the moment of a click on `[data-moment]`: the end of its turn. Read the record first if it lies
 * before the known events. Clicks that open a tab are left to the browser.
 * @param {{timeline: Timeline, act: (action: (player: Player) => void) => void, wholeRecord: () => Promise<void>}} wiring
 */
export function mountGoTo({ timeline, act, wholeRecord }) {
  document.addEventListener("click", async (event) => {
    const place = event.target instanceof Element ? event.target.closest("[data-moment], button, a, input, select") : null;
    if (!place?.matches("[data-moment]") || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const moment = place.getAttribute("data-moment") ?? "";
    const known = seqOf(timeline, moment);
    if (known === null || known < timeline.firstSeq) await wholeRecord();
    const seq = seqOf(timeline, moment);
    if (seq === null) return;
    act((player) => player.goTo(seq));
    if (event.detail === 0) setTimeout(keepFocus, DRAWN_MS, moment); // by keyboard
  });
}

/** If the focused element disappeared, focus the link of the same moment, else the timeline. @param {string} moment */
function keepFocus(moment) {
  if (document.activeElement !== document.body) return;
  const found = document.querySelector(`a[data-moment="${CSS.escape(moment)}"]`) ?? document.querySelector(".player__scrub");
  /** @type {HTMLElement | null} */ (found)?.focus();
}
