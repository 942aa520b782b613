// @ts-check
// One of two episodes that are compared: who plays, its state, what was decided and why.

import { h, replace, setAttribute, setText } from "./dom.js";
import { endWords } from "./header.js";
import { makeSeats } from "./seats_row.js";
import { argumentText, clip, plain, said, words } from "./text.js";

const LINES = 4;

/** @param {"a" | "b"} name @param {string} root @param {string} id */
export function makeSide(name, root, id) {
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
      replace(decided, ...(last ? decidedWords(last, episode) : []));
      reason.show(last?.reasoning ?? "");
      reason.element.hidden = !last?.reasoning;
      const feed = Object.values(state.feed ?? {}).slice(-LINES).reverse();
      replace(lines, ...feed.map((line) => h("li", {}, line.at ? h("span", { class: "quiet" }, clip(plain(line.at), 12)) : null, " ", line.label ? h("b", {}, clip(plain(line.label), 10), " ") : null, h("bdi", {}, clip(plain(line.text), 160)))));
      setAttribute(open, "href", new URL(`watch/${encodeURIComponent(id)}?seq=${seq}`, root).href);
    },
  };
}

/** @param {any} decision @param {any} episode */
export function decidedWords(decision, episode) {
  const { tool, arguments: given, ...rest } = decision.action ?? {};
  const details = Object.entries(given ?? rest).filter(([, value]) => value !== null).map(([key, value]) => `${words(key)} ${argumentText(value, 40)}`).join(", ");
  const label = plain(episode.seats?.[decision.actor]?.label ?? decision.actor);
  return [h("span", { class: "quiet" }, h("bdi", {}, clip(label, 40)), ": "), h("b", {}, clip(words(tool ?? "says"), 40)), details ? h("bdi", {}, ` ${clip(details, 140)}`) : null];
}
