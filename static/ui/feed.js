// @ts-check
// The list of commentary, newest first: each line leads to its moment, and the whole match can be read.

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
 * @param {{timeline: import("../live/timeline.js").Timeline, wholeRecord: () => Promise<void>, schedule: () => void}} wiring
 */
export function mountFeed(card, { timeline, wholeRecord, schedule }) {
  const list = h("ol", { class: "feed__list", tabindex: "0", "aria-label": "Commentary, newest first" });
  const empty = h("p", { class: "feed__empty" }, "The commentary begins with the first event worth a line.");
  const earlier = h("button", { class: "feed__earlier", type: "button", hidden: true }, "Earlier commentary");
  const last = h("li", { class: "feed__more", data: { key: "more" } }, earlier);
  card.append(h("header", { class: "card__head" }, h("h2", {}, "Commentary")), empty, list);
  let shown = PAGE;
  let drawn = "";
  earlier.addEventListener("click", async () => {
    setText(earlier, "Reading the record…");
    await wholeRecord();
    setText(earlier, "Earlier commentary");
    shown += PAGE;
    drawn = "";
    schedule();
  });
  return {
    /** @param {number} seq the event after which the page is drawn @param {{animate: boolean}} view @param {Element | null} ending what stands above all lines once it is over */
    update(seq, view, ending) {
      const all = linesUntil(timeline.lines, seq);
      const now = `${timeline.complete} ${all.length} ${all.at(-1)?.seq} ${shown} ${ending !== null}`;
      if (now === drawn) return;
      drawn = now;
      const lines = all.slice(-shown).reverse();
      earlier.hidden = timeline.complete ? lines.length === all.length : all.length < PAGE;
      empty.hidden = lines.length > 0;
      list.hidden = lines.length === 0;
      const first = list.childElementCount === 0;
      for (const apart of [last, ending]) apart?.remove();
      keyed(list, lines, (line) => String(line.seq), (line) => lineElement(line, view.animate && !first));
      if (ending) list.prepend(ending);
      if (!earlier.hidden) list.append(last);
    },
  };
}

/** @param {Line} line @param {boolean} isNew */
function lineElement(line, isNew) {
  const text = said("p", "feed__text", LONGEST);
  text.show(line.text);
  const mark = clip(plain(line.label), 12);
  const nameless = !mark && !plain(line.at);
  return h("li", { class: isNew ? "feed__line feed__line--new" : "feed__line", data: { priority: line.priority ?? 3, moment: line.seq } },
    momentLink(line.seq, { class: "feed__go", "aria-label": nameless ? "This moment" : null },
      h("span", { class: "feed__at" }, h("bdi", {}, clip(plain(line.at), 8))),
      h("span", { class: "feed__label" }, h("bdi", {}, mark))), text.element);
}
