// @ts-check
// Details of a decision: who made it and why, what the model wrote, tokens, time and cost; the prompt on demand.

import { SOURCE_WORDS, foreignWords, pointsText } from "../live/decisions.js";
import { makeDialog } from "./dialog.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { momentLink } from "./go_to.js";
import { mountCalls } from "./inspected_calls.js";
import { callParts } from "./mind.js";
import { mountNotes } from "./notes.js";
import { proposedPart } from "./proposed.js";
import { clip, duration, exactCost, plain, plural, said, words } from "./text.js";

/** @typedef {import("../live/decisions.js").Decided} Decided */

const TEXT = 1_200;

/**
 * Tokens of a decision: in, of these from a cache, out, of these for thoughts; the figures of all its exchanges summed.
 * @param {Record<string, any>} data of its event
 */
export function tokenWords(data) {
  if (!data.tokens_in && !data.tokens_out) return "";
  const sum = (/** @type {string} */ name) => (data.exchanges ?? []).reduce((/** @type {number} */ total, /** @type {any} */ one) => total + (one.reply?.usage?.[name] ?? 0), 0);
  const [cached, thought, written] = ["cached_in", "thought_out", "cache_written"].map(sum);
  const more = (/** @type {number} */ count, /** @type {string} */ what) => (count ? ` (${count.toLocaleString("en")} ${what})` : "");
  return `${plural(data.tokens_in ?? 0, "token")} in${more(cached, "from a cache")}${more(written, "written to a cache")}, ${(data.tokens_out ?? 0).toLocaleString("en")} out${more(thought, "for thinking")}${data.tokens_estimated ? ", partly estimated" : ""}`;
}

/**
 * @param {string} root @param {string} episodeId
 * @param {{timeline: import("../live/timeline.js").Timeline, seq: () => number, names: () => Record<string, string>, wholeRecord: () => Promise<void>}} wiring
 * @returns {{open: (seq?: number) => Promise<void>}} opens at a decision, by default the newest before the viewer's place
 */
export function mountInspector(root, episodeId, { timeline, seq, names, wholeRecord }) {
  const title = h("h3", { class: "inspect__title" });
  const badge = h("span", { class: "badge badge--foreign" });
  const call = h("p", { class: "call" });
  const sides = h("div", {});
  const reason = said("p", "inspect__text", TEXT);
  const thought = said("p", "inspect__text inspect__text--thought", TEXT);
  const raw = said("pre", "inspect__raw", TEXT);
  const facts = h("dl", { class: "facts" });
  const calls = mountCalls(root, episodeId);
  const notes = mountNotes(root, episodeId);
  const go = h("p", { class: "dialog__row" });
  const step = (/** @type {string} */ label, /** @type {-1 | 1} */ by) => h("button", { class: "button", type: "button", on: { click: () => move(by) } }, label);
  const part = (/** @type {string} */ name, /** @type {HTMLElement} */ content) => h("section", { class: "inspect__part" }, h("h4", {}, name), content);
  const parts = { reason: part("Reason", reason.element), thought: part("Thoughts", thought.element), raw: part("What the model wrote", raw.element) };
  const dialog = makeDialog("Decision", h("p", { class: "dialog__row" }, step("Previous", -1), step("Next", 1)), title, badge, call, sides, facts, parts.reason, parts.thought, parts.raw, calls.element, notes.element, go);
  dialog.classList.add("inspect");
  /** @type {Decided | undefined} */ let shown;

  /** @param {number} [asked] */
  async function open(asked) {
    const at = asked ?? seq();
    if (at < timeline.firstSeq || (asked !== undefined && !timeline.decisions.some((made) => made.seq === asked))) await wholeRecord();
    shown = timeline.decisions.findLast((made) => made.seq <= at) ?? timeline.decisions[0];
    draw();
    if (!dialog.open) dialog.showModal();
  }

  /** @param {-1 | 1} by */
  async function move(by) {
    if (by < 0 && !timeline.complete) await wholeRecord();
    const place = timeline.decisions.findIndex((made) => made.seq === shown?.seq);
    shown = timeline.decisions[place + by] ?? shown;
    draw();
  }

  function draw() {
    const data = shown?.data ?? {};
    const seat = timeline.headState.episode?.seats?.[data.actor] ?? {};
    setText(title, shown ? clip(plain(names()[data.actor] ?? words(data.actor ?? "")), 80) : "No decision yet.");
    const stranger = shown ? foreignWords(data, seat.source) : "";
    badge.hidden = !stranger;
    setText(badge, stranger);
    call.hidden = facts.hidden = go.hidden = !shown;
    if (!shown) return;
    replace(call, ...callParts(data.action));
    replace(sides, proposedPart(shown, stranger));
    const replies = (data.exchanges ?? []).map((/** @type {any} */ one) => one.reply ?? {});
    const texts = { reason: data.reasoning, thought: replies.map((/** @type {any} */ one) => one.thought).filter(Boolean).join("\n\n"), raw: data.raw_text ?? replies.at(-1)?.content };
    for (const [name, one] of /** @type {const} */ ([["reason", reason], ["thought", thought], ["raw", raw]])) {
      one.show(texts[name] ?? "");
      parts[name].hidden = !texts[name];
    }
    replace(facts, ...rows(shown, seat).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, clip(plain(value), 400)))]));
    notes.show(shown.turn);
    calls.show(shown, data.exchanges?.length ?? (data.model ? 1 : 0)); // those who follow live are not sent what was asked
    replace(go, momentLink(shown.seq, { class: "button" }, "Go to this moment"));
    go.firstElementChild?.addEventListener("click", () => dialog.close());
    setAttribute(dialog, "data-seq", shown.seq);
  }

  return { open };
}

/** @param {Decided} made @param {any} seat @returns {[string, string][]} */
function rows(made, seat) {
  const { data } = made;
  const failures = (data.exchanges ?? []).filter((/** @type {any} */ one) => one.failure).map((/** @type {any} */ one) => [words(one.failure.kind), one.failure.status].filter(Boolean).join(" "));
  const all = /** @type {[string, string][]} */ ([
    ["Decided by", [SOURCE_WORDS[made.source] ?? made.source, data.model].filter(Boolean).join(", ")], ["Seat of", seat.label ?? ""],
    ["Fallback reason", data.fallback_reason ?? ""], ["Refused", made.refused ? `${made.refused.message} (${made.refused.rule})` : ""],
    ["Worth", pointsText(made.points)], ["Tokens", tokenWords(data)], ["Time", !data.latency_s ? "" : duration(data.latency_s)],
    ["Cost", typeof data.cost === "number" ? exactCost(data.cost) : ""], ["Requests", data.exchanges?.length > 1 ? String(data.exchanges.length) : ""], ["Failed requests", failures.join("; ")],
    ["Parsing", data.parse === "repaired" ? "the text had to be repaired" : data.parse === "failed" ? "failed" : ""], ["Event", `${made.seq}, turn ${made.turn}`],
  ]);
  return all.filter(([, value]) => value !== "");
}
