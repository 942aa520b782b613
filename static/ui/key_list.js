// @ts-check
// The list of keys, fetched on first use.

import { h } from "./dom.js";

/** @param {string} chapter what people call a chapter; empty when there are none @returns {[string[], string][]} */
const keys = (chapter) => [
  [["Space"], "play or pause"],
  [["←", "→"], "one step back or forward"],
  [["⇧ ←", "⇧ →"], "previous or next decision"],
  ...(chapter ? /** @type {[string[], string][]} */ ([[[",", "."], `previous or next ${chapter}`]]) : []),
  [["[", "]"], "previous or next big moment"],
  [["Home", "End"], "first or newest event"],
  [["L"], "go live"],
  [["−", "+"], "slower, faster"],
  [["M"], "sound on or off"],
  [["X"], "text only, and back"],
  [["C"], "copy a link to this moment"],
  [["V"], "download a clip of this moment, if the world draws one"],
  [["I"], "inspect the newest decision"],
  [["W"], "alternatives to a decision, once the episode is over"],
  [["P", "N"], "previous or next costly decision"],
  [["D"], "all decisions, or the commentary"],
  [["A"], "about this episode: seed, captains, download"],
  [["T"], "dark or light"],
  [["1", "9"], "in your own seat: choose an action"],
  [["Enter"], "in your own seat: send it"],
  [["?"], "this help"],
];

/** @param {string} chapter what people call a chapter; empty when there are none */
export function keyList(chapter) {
  const rows = keys(chapter).flatMap(([names, meaning]) => [
    h("dt", {}, ...names.flatMap((key) => [h("kbd", {}, key), " "])), h("dd", {}, meaning)]);
  return h("dl", { class: "keys" }, ...rows);
}
