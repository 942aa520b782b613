// @ts-check
// Alternatives to the decision at the viewer's place, best first, simulated by the server.

import { get } from "../live/api.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { momentLink } from "./go_to.js";
import { callParts } from "./mind.js";
import { clip, plain, words } from "./text.js";

/** Milliseconds at one place before the server is asked, so that stepping through does not ask every time. */
const REST_MS = 250;
/** How long a simulation usually takes, in milliseconds, for the progress bar. */
const USUAL_MS = 1_000;
const BAR_MS = 80;
/** Turns before a decision in which its captain may have called for the same ball. */
const SAME_BALL = 9;
/** Standard errors on either side of a figure: nineteen of twenty lie within. */
const WITHIN = 1.96;

/** @typedef {{action: any, words: string, chance: number, error: number, gain: number, gain_error: number, played: boolean, place: number}} Alternative */
/** @typedef {{seq: number, actor: string, best: Alternative[], weighed: number, futures: number, how: string}} Told */

const percent = (/** @type {number} */ share) => (100 * share).toFixed(1);
const within = (/** @type {number} */ error, digits = 1) => `± ${(100 * WITHIN * error).toFixed(digits)}`;

/** A gain in points with its sign; none where it rounds to nothing. @param {number} gain of 1 */
export function gainText(gain) {
  const points = (100 * Math.abs(gain)).toFixed(2);
  return points === "0.00" ? "0.00" : `${gain < 0 ? "−" : "+"}${points}`;
}

/** Whether a gain is beyond its error. @param {{gain: number, gain_error: number}} one */
export const isSure = ({ gain, gain_error }) => Math.abs(gain) > WITHIN * gain_error;

/**
 * @param {HTMLElement} card of the commentary, which they can replace
 * @param {HTMLElement} toggle the button that shows them
 * @param {string} root @param {string} episodeId
 * @param {{timeline: import("../live/timeline.js").Timeline, seq: () => number, wholeRecord: () => Promise<void>, schedule: () => void}} page
 */
export function mountAlternatives(card, toggle, root, episodeId, { timeline, seq, wholeRecord, schedule }) {
  const who = h("p", { class: "alternatives__who" });
  const status = h("p", { class: "quiet alternatives__say", role: "status" });
  const bar = h("progress", { class: "alternatives__bar", max: 1, value: 0, "aria-label": "Simulating" });
  const list = h("ol", { class: "alternatives__list", "aria-label": "Calls, best first" });
  const note = h("p", { class: "quiet alternatives__note" });
  const section = h("section", { class: "alternatives", hidden: true, "aria-label": "Alternatives" }, who, status, bar, list, note);
  card.append(section);
  /** @type {Map<number, Told>} */ const known = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let resting;
  /** @type {ReturnType<typeof setInterval> | undefined} */ let filling;
  let open = false;
  let withLog = false;
  let shown = -1;
  /** @type {Record<string, string>} */ let names = {};

  /** @param {boolean} wantsOpen */
  function show(wantsOpen) {
    open = wantsOpen;
    withLog = card.classList.contains("feed--log");
    section.hidden = !open;
    card.classList.toggle("feed--alternatives", open);
    setAttribute(toggle, "aria-pressed", String(open));
    const title = open ? "Alternatives" : withLog ? "Decisions" : "Commentary";
    setAttribute(card, "aria-label", title);
    for (const head of card.querySelectorAll(".card__head h2")) setText(head, title);
    if (open) card.dispatchEvent(new CustomEvent("show-view", { bubbles: true, detail: "commentary" }));
    shown = -1;
    schedule();
  }

  const decisionAt = () => timeline.decisions.findLast((made) => made.seq <= seq());

  function draw() {
    const made = decisionAt();
    const at = made?.seq ?? 0;
    if (at === shown) return;
    shown = at;
    clearTimeout(resting);
    stopBar();
    replace(list);
    setText(note, "");
    if (!made) {
      replace(who);
      return setText(status, "No decision yet.");
    }
    const place = timeline.decisions.indexOf(made);
    const [before, after] = [timeline.decisions[place - 1], timeline.decisions[place + 1]];
    const where = timeline.stateAt(made.seq).world?.glance?.at;
    replace(who, h("b", {}, h("bdi", {}, clip(plain(names[made.actor] ?? words(made.actor)), 40))), where ? h("span", { class: "quiet" }, ` at ${clip(plain(where), 40)}`) : null,
      h("span", { class: "alternatives__steps" }, before ? momentLink(before.seq, { class: "more" }, "previous") : null, after ? momentLink(after.seq, { class: "more" }, "next") : null));
    const told = known.get(made.seq);
    if (told) return fill(told);
    setText(status, "Simulating…");
    startBar();
    resting = setTimeout(() => void ask(made.seq), REST_MS);
  }

  /** @param {number} at number of the decision */
  async function ask(at) {
    const answer = await get(root, `api/episodes/${encodeURIComponent(episodeId)}/alternatives?seq=${at}`);
    if (answer.ok) known.set(at, answer.body);
    if (at !== shown || !open) return;
    stopBar();
    if (answer.ok) fill(answer.body);
    else setText(status, answer.message);
  }

  function startBar() {
    const began = performance.now();
    bar.hidden = false;
    filling = setInterval(() => { bar.value = 1 - Math.exp(-(performance.now() - began) / USUAL_MS); }, BAR_MS);
  }

  function stopBar() {
    clearInterval(filling);
    bar.hidden = true;
    bar.value = 0;
  }

  /** @param {Told} told */
  function fill(told) {
    const shownOf = told.best.length;
    setText(status, shownOf ? "Chance to win · points over what was played" : told.how);
    replace(list, ...told.best.map((one) => rowOf(one, told.seq)));
    setText(note, shownOf ? `${told.how} ${told.weighed} calls compared over ${told.futures.toLocaleString("en")} simulated futures, with the same luck for each; ± is a 95 % interval.` : "");
  }

  /** @param {Alternative} one @param {number} at */
  function rowOf(one, at) {
    const look = one.played ? "quiet" : !isSure(one) ? "quiet" : one.gain > 0 ? "up" : "down";
    return h("li", {}, h("details", { class: `alternative${one.played ? " alternative--played" : ""}`, name: "alternative" },
      h("summary", {}, h("span", { class: "alternative__place" }, `${one.place}.`), h("b", { class: "alternative__chance" }, `${percent(one.chance)} %`),
        h("span", { class: "alternative__words" }, h("bdi", {}, clip(plain(one.words), 120))),
        one.played ? h("span", { class: "badge" }, "played") : h("b", { class: `alternative__gain ${look}`, title: within(one.gain_error, 2) }, gainText(one.gain))),
      h("p", { class: "call" }, ...callParts(one.action)),
      h("p", { class: "quiet" }, `${percent(one.chance)} % ${within(one.error)}${one.played ? "" : `; ${gainText(one.gain)} ${within(one.gain_error, 2)} points${isSure(one) ? "" : ": no measurable difference from what was played"}`}`),
      h("button", { class: "more alternative__fork", type: "button", on: { click: () => void forkBefore(at, one.action.tool) } }, "Play on from just before this call")));
  }

  /**
   * Fork before this decision, or before its captain first used the same tool for the same ball.
   * @param {number} seq of the decision @param {string} tool
   */
  async function forkBefore(seq, tool) {
    await wholeRecord();
    const place = timeline.decisions.findIndex((made) => made.seq === seq);
    const [made, before] = [timeline.decisions[place], timeline.decisions.slice(0, place)];
    const since = before.findLastIndex((one) => one.actor !== made.actor);
    const at = (before.slice(since + 1).findLast((one) => one.tool === tool && one.turn > made.turn - SAME_BALL) ?? made).seq;
    const link = momentLink(at - 1, { hidden: true });
    section.append(link);
    link.click();
    link.remove();
    document.getElementById("fork")?.click();
  }

  return {
    toggle() { show(!open); },
    /** @param {Record<string, string>} called */
    update(called) {
      if (open && !withLog && card.classList.contains("feed--log")) show(false);
      if (!open) return;
      names = Object.fromEntries(Object.entries(called).map(([actor, name]) => [actor, name.split(" · ")[0]]));
      if (!timeline.complete && !decisionAt()) void wholeRecord();
      draw();
    },
  };
}
