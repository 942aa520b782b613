// @ts-check
// One of two episodes that are compared: who plays, its state, what was decided and why.

import { h, replace, setAttribute, setText } from "./dom.js";
import { endWords } from "./header.js";
import { makeSeats } from "./seats_row.js";
import { argumentText, clip, plain, said, words } from "./text.js";

const LINES = 4;

/** @param {"a" | "b"} name @param {string} root @param {string} id @param {Call} [call] */
export function makeSide(name, root, id, call) {
  const open = h("a", { class: "side__open", href: new URL(`watch/${encodeURIComponent(id)}`, root).href }, "Watch");
  const seats = makeSeats();
  const at = h("span", { class: "side__at" });
  const headline = h("bdi");
  const figure = h("b", { class: "side__figure" });
  const decided = h("p", { class: "side__decided" });
  const reason = said("p", "side__reason said", 220);
  const lines = h("ol", { class: "side__lines" });
  const element = h("section", { class: `card side side--${name}`, "aria-label": name === "a" ? "First" : "Second" },
    h("p", { class: "side__who" }, h("i", { class: "side__key", "aria-hidden": "true" }), at, open), seats.element,
    h("p", { class: "side__headline" }, headline), h("p", { class: "side__value" }, figure), decided, reason.element, lines);
  return {
    element,
    /** @param {any} state @param {number} seq the viewer's place @param {string[]} sides names of the seats' sides @param {number | null} chance of the first of two seats */
    update(state, seq, sides, chance) {
      const { episode = {}, world = {}, decisions = {} } = state;
      const ended = episode.status === "ended";
      seats.update(Object.values(episode.seats ?? {}).map((seat) => plain(seat.label)), sides, chance);
      setText(at, ended ? endWords(episode.reason) : clip(plain(world.glance?.at ?? `turn ${episode.turn ?? 0}`), 40));
      setText(headline, clip(plain(world.headline).replaceAll(" (", "\u00a0("), 120));
      setText(figure, world.glance?.value === undefined ? "" : `${world.glance.value} ${plain(world.glance.unit)}`);
      const last = Object.values(decisions).reduce((/** @type {any} */ newest, one) => (newest && newest.seq > one.seq ? newest : one), null);
      replace(decided, ...(last ? decidedWords(last, episode, call) : []));
      reason.show(last?.reasoning ?? "");
      reason.element.hidden = !last?.reasoning;
      const feed = Object.values(state.feed ?? {}).slice(-LINES).reverse();
      replace(lines, ...feed.map((line) => h("li", {}, line.at ? h("span", { class: "quiet" }, clip(plain(line.at), 12)) : null, " ", line.label ? h("b", {}, clip(plain(line.label), 10), " ") : null, h("bdi", {}, clip(plain(line.text), 160)))));
      setAttribute(open, "href", new URL(`watch/${encodeURIComponent(id)}?seq=${seq}`, root).href);
    },
  };
}

/** A call in the world's words: pairs of a name and what it is set to. @typedef {(tool: string, given: Record<string, any>) => [string, string][]} Call */

/** Longest text of an argument that counts as a value; a longer one is a sentence, which is quoted first. */
const VALUE = 30;

/**
 * Who decided what. @param {any} decision @param {any} episode @param {Call} [call] how its world words a call
 * @param {any} [other] the decision that it is compared with: what both set alike is left out
 */
export function decidedWords(decision, episode, call, other) {
  const [tool, sentences, pairs] = parts(decision, call);
  const theirs = other && parts(other, call);
  const alike = new Set(theirs?.[0] === tool ? theirs[2].map(String) : []);
  const details = pairs.filter((pair) => !alike.has(String(pair))).map(([name, value]) => `${name} ${value}`).join(", ");
  const label = plain(episode.seats?.[decision.actor]?.label ?? decision.actor);
  return [h("span", { class: "quiet" }, h("bdi", {}, clip(label, 40)), ": "), h("b", {}, clip(words(tool || "says"), 40)),
    ...sentences.map((one) => h("bdi", {}, ` “${clip(one, 160)}”`)), details ? h("bdi", { class: "side__details" }, ` ${clip(details, 240)}`) : null];
}

/** @param {any} decision @param {Call} [call] @returns {[string, string[], [string, string][]]} tool, sentences, pairs */
function parts({ action }, call) {
  const { tool = "", arguments: given, ...rest } = action ?? {};
  const all = Object.entries(given ?? rest).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  const isSentence = (/** @type {unknown} */ value) => typeof value === "string" && value.length > VALUE;
  const values = all.filter(([, value]) => !isSentence(value));
  /** @type {[string, string][]} */ let pairs = values.map(([key, value]) => [words(key), argumentText(value, 40)]);
  try { pairs = call?.(tool, Object.fromEntries(values)) ?? pairs; } catch (error) { console.error("a call could not be worded", error); }
  return [tool, all.filter(([, value]) => isSentence(value)).map(([, value]) => plain(value)), pairs.map(([name, value]) => [plain(name), plain(value)])];
}
