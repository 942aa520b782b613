// @ts-check
// Leads from whatever names a moment to that moment: a line of commentary, a bar of a chart, a mark.

import { h } from "./dom.js";

/** @typedef {import("../live/player.js").Player} Player */
/** @typedef {import("../live/timeline.js").Timeline} Timeline */

/**
 * A link to a moment, by the number of its event or by what its world calls it.
 * @param {string | number} moment @param {import("./dom.js").Props} props @param {...any} children
 */
export function momentLink(moment, props, ...children) {
  return h("a", { ...props, href: `?${typeof moment === "number" ? "seq" : "at"}=${encodeURIComponent(moment)}`, data: { moment, ...props.data } }, ...children);
}

/**
 * Number of the event that a moment's name stands for; null when it names none that is known.
 * @param {Timeline} timeline @param {string} moment
 */
export function seqOf(timeline, moment) {
  const seq = /^\d+$/.test(moment) ? Number(moment) : timeline.placeOf(moment);
  return seq === undefined || seq > timeline.headSeq ? null : seq;
}

/**
 * Where an address leads: to the event of that number, or to the end of the turn of the one of that name; null where it is not known.
 * @param {Timeline} timeline @param {string} moment
 */
export function placeNamed(timeline, moment) {
  const seq = seqOf(timeline, moment);
  return seq === null || String(seq) === moment ? seq : timeline.turnEnd(seq);
}

/** When the moment that one went to has been drawn, in milliseconds. */
const DRAWN_MS = 300;

/**
 * Go wherever a click on `[data-moment]` says: to the end of the turn in which it happened, the record read first where it lies
 * before what is known. Clicks that open a tab stay the browser's.
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

/** Where what had the focus is gone with the moment that it stood in, the focus goes to the same one's link, else to the timeline. @param {string} moment */
function keepFocus(moment) {
  if (document.activeElement !== document.body) return;
  const found = document.querySelector(`a[data-moment="${CSS.escape(moment)}"]`) ?? document.querySelector(".player__scrub");
  /** @type {HTMLElement | null} */ (found)?.focus();
}
