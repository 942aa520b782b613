// @ts-check
// The list of commentary, newest first: each line leads to its moment, and the whole match can be read.

import { foreignWords } from "../live/decisions.js";
import { linesUntil } from "../live/moments.js";
import { h, keyed, setText } from "./dom.js";
import { momentLink } from "./go_to.js";
import { clip, plain, said } from "./text.js";

/** @typedef {import("../live/timeline.js").Line} Line */

const LONGEST = 400;
/** Lines shown at first, and added by each wish for earlier ones: a page of a thousand lines would be slow to move. */
const PAGE = 60;

/**
 * @param {HTMLElement} card
 * @param {{timeline: import("../live/timeline.js").Timeline, wholeRecord: () => Promise<void>, momentPage: (seq: number) => string, schedule: () => void}} wiring
 */
export function mountFeed(card, { timeline, wholeRecord, momentPage, schedule }) {
  const list = h("ol", { class: "feed__list", tabindex: "0", "aria-label": "Commentary, newest first", hidden: true });
  const empty = h("p", { class: "feed__empty", hidden: true }, "The commentary begins with the first event worth a line.");
  const earlier = h("button", { class: "feed__earlier", type: "button", hidden: true }, "Earlier commentary");
  const last = h("li", { class: "feed__more", data: { key: "more" } }, earlier);
  card.append(h("header", { class: "card__head" }, h("h2", {}, "Commentary")), empty, list);
  let shown = PAGE;
  let drawn = "";
  let complete = timeline.complete;
  earlier.addEventListener("click", async () => {
    setText(earlier, "Reading the record…");
    await wholeRecord();
    setText(earlier, "Earlier commentary");
    shown += PAGE;
    drawn = "";
    schedule();
  });
  return {
    /** @param {number} seq the event after which the page is drawn @param {{animate: boolean}} view @param {Element | null} ending the card above all lines after the end */
    update(seq, view, ending) {
      const all = linesUntil(timeline.lines, seq);
      const now = `${timeline.complete} ${all.length} ${all.at(-1)?.seq} ${shown} ${ending !== null}`;
      if (now === drawn) return;
      drawn = now;
      const lines = all.slice(-shown).reverse();
      earlier.hidden = timeline.complete ? lines.length === all.length : all.length < PAGE;
      empty.hidden = lines.length > 0;
      list.hidden = lines.length === 0;
      if (complete !== timeline.complete) list.replaceChildren(); // what is known of earlier lines has changed
      complete = timeline.complete;
      const first = list.childElementCount === 0;
      for (const apart of [last, ending]) apart?.remove();
      keyed(list, lines, (line) => String(line.seq), (line) => lineElement(line, view.animate && !first, foreignOf(timeline, line), momentPage));
      if (ending) list.prepend(ending);
      if (!earlier.hidden) list.append(last);
    },
  };
}

/**
 * Why decisions behind a line are not their seats' own, in words; only at the line about what was to be watched.
 * @param {import("../live/timeline.js").Timeline} timeline @param {Line} line
 */
function foreignOf(timeline, line) {
  if (!timeline.isBeat(line.for_seq ?? 0)) return "";
  const since = timeline.stops[timeline.stopAt(line.seq) - 1] ?? 0;
  const seats = timeline.headState.episode?.seats ?? {};
  const behind = timeline.decisions.filter((made) => made.seq > since && made.seq < line.seq).map((made) => foreignWords(made.data, seats[made.actor]?.source));
  return [...new Set(behind.filter(Boolean))].join("; ");
}

/** @param {Line} line @param {boolean} isNew @param {string} foreign @param {(seq: number) => string} momentPage */
function lineElement(line, isNew, foreign, momentPage) {
  const text = said("p", "feed__text", LONGEST);
  text.show(line.text);
  if (foreign) text.element.append(" ", h("span", { class: "badge badge--foreign" }, foreign));
  const reply = said("p", "feed__reply", LONGEST);
  reply.show(line.reply ? `Analyst: ${line.reply}` : "");
  const mark = clip(plain(line.label), 12);
  const nameless = !mark && !plain(line.at);
  return h("li", { class: isNew ? "feed__line feed__line--new" : "feed__line", data: { priority: line.priority ?? 3, moment: line.seq } },
    momentLink(line.seq, { class: "feed__go", href: momentPage(line.seq), "aria-label": nameless ? "This moment" : null },
      h("span", { class: "feed__at" }, h("bdi", {}, clip(plain(line.at), 8))),
      h("span", { class: "feed__label" }, h("bdi", {}, mark))), h("div", {}, text.element, line.reply ? reply.element : null));
}
