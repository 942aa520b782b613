// @ts-check
// What each key does, fetched when somebody asks.

import { h } from "./dom.js";

/** @param {string} chapter what people call a chapter; empty when there are none @returns {[string[], string][]} */
const keys = (chapter) => [
  [["Space"], "play or stand still"],
  [["←", "→"], "one beat back or on"],
  [["⇧ ←", "⇧ →"], "one decision back or on"],
  ...(chapter ? /** @type {[string[], string][]} */ ([[[",", "."], `one ${chapter} back or on`]]) : []),
  [["[", "]"], "the big moment before or after"],
  [["Home", "End"], "the beginning, the newest"],
  [["L"], "go live"],
  [["−", "+"], "slower, faster"],
  [["M"], "sound on or off"],
  [["X"], "text only, and back"],
  [["C"], "copy a link to this moment"],
  [["V"], "clip this moment, where the world draws it"],
  [["I"], "what was behind the newest decision"],
  [["W"], "what else could have been called, once it is over"],
  [["P", "N"], "the decision before or after that cost much"],
  [["D"], "every decision, and back to the commentary"],
  [["A"], "about this episode: seed, captains, download"],
  [["T"], "evening or day"],
  [["1", "9"], "in your own seat: choose the action"],
  [["Enter"], "in your own seat: do it"],
  [["?"], "this help"],
];

/** @param {string} chapter what people call a chapter; empty when there are none */
export function keyList(chapter) {
  const rows = keys(chapter).flatMap(([names, meaning]) => [
    h("dt", {}, ...names.flatMap((key) => [h("kbd", {}, key), " "])), h("dd", {}, meaning)]);
  return h("dl", { class: "keys" }, ...rows);
}
