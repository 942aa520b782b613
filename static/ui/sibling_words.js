// @ts-check
// The dialog with the words of one sibling at one decision: its prompt, the reply, and their tokens.

import { makeDialog } from "./dialog.js";
import { h, replace, setText } from "./dom.js";
import { mountCalls } from "./inspected_calls.js";

/** @typedef {{id: string, key: string, events: import("../live/protocol.js").LiveEvent[], timeline: import("../live/timeline.js").Timeline, decided: import("../live/siblings.js").Decided[]}} Spoken */

/**
 * @param {string} root
 * @returns {(one: Spoken, at: number, longest: number) => void} shows what a sibling was asked at a decision, or at its end
 */
export function mountWords(root) {
  const where = h("h3", { class: "inspect__title" });
  const place = h("div");
  const dialog = makeDialog("Prompt and reply", where, place);
  dialog.classList.add("inspect");
  /** @type {Map<string, ReturnType<typeof mountCalls>>} */ const known = new Map();
  return ({ id, key, events, timeline, decided }, at, longest) => {
    const calls = known.get(id) ?? mountCalls(root, id);
    known.set(id, calls);
    const { episode } = timeline.headState;
    const made = decided[at];
    const turnOf = (/** @type {{seq: number} | undefined} */ one) => events.find(({ seq }) => seq === one?.seq)?.turn;
    const [turn, before] = made ? [turnOf(made) ?? 0] : [(episode?.turn ?? 0) + 1, turnOf(decided.at(-1))];
    setText(where, `Sibling ${key}, ${made ? `decision ${at + 1} of ${longest}` : "at its end"}`);
    replace(place, calls.element);
    calls.show({ seq: made?.seq ?? -1, turn, before, actor: episode?.agent ?? "" }, 1);
    calls.element.open = true;
    if (!dialog.open) dialog.showModal();
  };
}
