// @ts-check
// What a model proposed beside what was executed, and what the world said of it.

import { h } from "./dom.js";
import { clip, plain, words } from "./text.js";

const LONGEST = 400;

/**
 * The actions that a decision's answers proposed, in order: their tool calls, else the text of the last.
 * @param {Record<string, any>} data of the decision's event @returns {string[]}
 */
export function proposals(data) {
  const replies = (data.exchanges ?? []).map((/** @type {any} */ one) => one.reply).filter(Boolean);
  return replies.flatMap((/** @type {any} */ reply) => {
    const called = (reply.tool_calls ?? []).map((/** @type {any} */ call) => `${call.name ?? call.function?.name ?? "?"} ${compact(call.arguments ?? call.function?.arguments)}`);
    return called.length ? called : reply.content ? [plain(reply.content)] : [];
  });
}

/** @param {Record<string, any>} action */
export const executed = (action) => (typeof action?.tool === "string" ? `${action.tool} ${compact(action.arguments ?? {})}` : compact(action ?? {}));

/** Arguments as they would be written, whatever blanks they came with. @param {unknown} value */
function compact(value) {
  if (typeof value !== "string") return JSON.stringify(value ?? {});
  try { return JSON.stringify(JSON.parse(value)); } catch { return value; }
}

/**
 * Both side by side; null where no model proposed anything.
 * @param {import("../live/decisions.js").Decided} made @param {string} why it is not the model's own; empty where it is
 */
export function proposedPart(made, why) {
  const proposed = proposals(made.data);
  if (!proposed.length) return null;
  const outcome = made.refused ? `refused by the rule ${words(made.refused.rule)}` : why ? why : "executed";
  const column = (/** @type {string} */ title, /** @type {string[]} */ texts, /** @type {string} */ note) => h("div", {}, h("h4", {}, title), ...texts.map((text) => h("pre", { class: "inspect__raw" }, h("bdi", {}, clip(plain(text), LONGEST)))), note ? h("p", { class: "quiet" }, h("bdi", {}, note)) : null);
  return h("div", { class: "inspect__sides" }, column(proposed.length > 1 ? `Proposed, ${proposed.length} times` : "Proposed", proposed, ""), column("Executed", [executed(made.data.action)], outcome));
}
