// @ts-check
// Every decision in a list: by seat, tool, source, worth and refusals; each leads to its moment. Only what is in sight is drawn.

import { SOURCE_WORDS, WORTHS, foreignWords, pointsText, wanted } from "../live/decisions.js";
import { h, keyed, replace, setAttribute, setText } from "./dom.js";
import { momentLink } from "./go_to.js";
import { readQuery, writeQuery } from "./query.js";
import { argumentText, clip, plain, plural, words } from "./text.js";

/** @typedef {import("../live/decisions.js").Decided} Decided */

/** Height of a row in pixels at 16 pixels a rem; styles say the same in rem. */
const ROW_REM = 3.75;
/** Rows drawn beyond either end of what is in sight. */
const BEYOND = 6;
const NAMES = /** @type {const} */ (["seat", "tool", "source", "worth"]);
/** The wish for those that lost, the costliest first. */
const MOST = "most";
/** Names in the address; `seat` could be mistaken for a seat to play. @type {Record<string, string>} */
const QUERY = { seat: "by", tool: "call", source: "source", worth: "worth" };

/**
 * @param {HTMLElement} card of the commentary, which the list can replace
 * @param {HTMLElement} toggle the button that shows it
 * @param {{timeline: import("../live/timeline.js").Timeline, wholeRecord: () => Promise<void>, schedule: () => void}} wiring
 */
export function mountDecisionLog(card, toggle, { timeline, wholeRecord, schedule }) {
  const kept = readQuery(["log", ...Object.values(QUERY)]);
  const wish = /** @type {import("../live/decisions.js").Wish} */ (Object.fromEntries(NAMES.map((name) => [name, kept[QUERY[name]]])));
  const choosers = NAMES.map((name) => h("select", { class: "input log__wish", "aria-label": `By ${name}`, data: { wish: name }, on: { change: (/** @type {Event} */ event) => choose(name, /** @type {HTMLSelectElement} */ (event.currentTarget).value) } }));
  const told = h("p", { class: "log__told quiet", role: "status" });
  const rows = h("ol", { class: "log__rows" });
  const list = h("div", { class: "log__list", tabindex: "0", role: "group", "aria-label": "Decisions, newest first", on: { scroll: () => draw() } }, rows);
  const section = h("div", { class: "log", hidden: true }, h("p", { class: "log__wishes" }, ...choosers), told, list);
  card.append(section);
  let open = false;
  let drawn = "";
  /** Whether earlier events were requested; once only, because the record may not answer. */
  let asked = false;
  /** @type {Record<string, string>} */ let names = {};
  /** @type {Decided[]} */ let found = [];
  let seq = 0;

  /** @param {boolean} wantsOpen */
  function show(wantsOpen) {
    open = wantsOpen;
    asked = false;
    section.hidden = !open;
    card.classList.toggle("feed--log", open);
    setAttribute(toggle, "aria-pressed", String(open));
    setAttribute(card, "aria-label", open ? "Decisions" : "Commentary");
    for (const title of card.querySelectorAll("h2")) setText(title, open ? "Decisions" : "Commentary");
    if (open) card.dispatchEvent(new CustomEvent("show-view", { bubbles: true, detail: "commentary" }));
    drawn = "";
  }

  function turn() {
    show(!open);
    writeQuery({ log: open ? "1" : "" });
    schedule();
  }

  /** @param {keyof typeof wish} name @param {string} value */
  function choose(name, value) {
    wish[name] = value;
    writeQuery({ [QUERY[name]]: value });
    drawn = "";
    list.scrollTop = 0;
    schedule();
  }

  function fillChoosers() {
    const all = timeline.decisions;
    const distinct = (/** @type {"actor" | "tool" | "source"} */ name) => [...new Set(all.map((made) => made[name]))].filter(Boolean).sort();
    const choices = {
      seat: distinct("actor").map((actor) => [actor, clip(plain(names[actor] ?? words(actor)), 30)]), tool: distinct("tool").map((tool) => [tool, clip(words(tool), 30)]),
      source: distinct("source").map((source) => [source, SOURCE_WORDS[source] ?? source]), worth: [...WORTHS, [MOST, "cost most"]],
    };
    const any = { seat: "every seat", tool: "every tool", source: "every source", worth: "any worth" };
    for (const [index, name] of NAMES.entries()) {
      const known = choices[name].some(([value]) => value === wish[name]) || !wish[name] ? choices[name] : [...choices[name], [wish[name], wish[name]]];
      replace(choosers[index], h("option", { value: "" }, any[name]), ...known.map(([value, label]) => h("option", { value, selected: value === wish[name] }, label)));
    }
  }

  function draw() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const high = ROW_REM * rem;
    const first = Math.max(0, Math.floor(list.scrollTop / high) - BEYOND);
    const shown = found.slice(first, Math.ceil((list.scrollTop + list.clientHeight) / high) + BEYOND);
    rows.style.height = `${found.length * ROW_REM}rem`;
    keyed(rows, shown, (made) => `${made.seq} ${made.points} ${made.refused?.rule}`, rowOf);
    for (const [index, made] of shown.entries()) {
      const row = /** @type {HTMLElement} */ (rows.children[index]);
      row.style.transform = `translateY(${(first + index) * ROW_REM}rem)`;
      setAttribute(row, "aria-setsize", found.length);
      setAttribute(row, "aria-posinset", first + index + 1);
      row.classList.toggle("log__row--later", made.seq > seq);
    }
  }

  /** @param {Decided} made */
  function rowOf(made) {
    const seat = timeline.headState.episode?.seats?.[made.actor] ?? {};
    const given = Object.entries(made.data.action?.arguments ?? {}).filter(([, value]) => value !== null).map(([name, value]) => `${words(name)} ${argumentText(value, 40)}`).join(", ");
    const stranger = made.refused ? `refused: ${made.refused.rule}` : foreignWords(made.data, seat.source);
    const points = pointsText(made.points);
    return h("li", { class: "log__row", data: { moment: made.seq } },
      momentLink(made.seq, { class: "log__go" }, h("span", { class: "log__who" }, h("bdi", {}, clip(plain(names[made.actor] ?? words(made.actor)), 40))),
        h("code", {}, h("bdi", {}, clip(words(made.tool || "says"), 40))), h("span", { class: "log__given quiet" }, h("bdi", {}, clip(plain(given), 120)))),
      h("b", { class: `log__worth ${(made.points ?? 0) >= 0.05 ? "up" : (made.points ?? 0) <= -0.05 ? "down" : "quiet"}`, title: points ? "Value, in the world’s own unit" : null }, points),
      h("p", { class: "log__why" }, stranger ? h("span", { class: "badge badge--foreign" }, clip(plain(stranger), 60)) : null, h("bdi", {}, clip(plain(made.data.reasoning || "no reason given"), 160))),
      h("button", { class: "more log__inspect", type: "button", data: { inspect: made.seq } }, "inspect"));
  }

  if (kept.log === "1") show(true);
  return {
    toggle: turn,
    /** @param {number} at the event after which the page is drawn @param {Record<string, string>} called */
    update(at, called) {
      if (!open) return;
      if (!asked && !timeline.complete) void wholeRecord();
      asked = asked || timeline.headSeq > 0;
      const last = timeline.decisions.at(-1);
      const now = `${timeline.complete} ${timeline.decisions.length} ${last?.points} ${last?.refused?.rule} ${at} ${Object.values(wish)}`;
      if (now === drawn) return;
      drawn = now;
      seq = at;
      names = Object.fromEntries(Object.entries(called).map(([actor, name]) => [actor, name.split(" · ")[0]]));
      fillChoosers();
      const costs = wish.worth === MOST;
      found = wanted(timeline.decisions, costs ? { ...wish, worth: "lost" } : wish);
      if (costs) found.sort((a, b) => (a.points ?? 0) - (b.points ?? 0));
      setAttribute(list, "aria-label", `Decisions, the ${costs ? "costliest" : "newest"} first`);
      const worth = found.some((made) => made.points !== null) ? `, worth ${pointsText(found.reduce((total, made) => total + (made.points ?? 0), 0))} in all` : "";
      setText(told, `${found.length.toLocaleString("en")} of ${plural(timeline.decisions.length, "decision")}${worth}${timeline.complete ? "" : "; loading earlier ones…"}`);
      draw();
    },
  };
}
