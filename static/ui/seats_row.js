// @ts-check
// The seats of an episode in a row: two with emblem, side, captain and chance; others by name.

import { h, replace, setText } from "./dom.js";
import { emblem } from "./emblem.js";
import { clip } from "./text.js";

export function makeSeats() {
  const element = h("p", { class: "tile__seats" });
  const ends = [0, 1].map(() => ({ name: h("span", { class: "tile__who" }), share: h("b") }));
  let named = "";
  return {
    element,
    /** @param {string[]} names @param {string[]} sides @param {unknown} chance of the first of two */
    update(names, sides, chance) {
      const two = names.length === 2;
      if (element.dataset.told !== String(two)) {
        element.dataset.told = String(two);
        const [first, second] = ends;
        element.replaceChildren(...(two ? [h("span", {}, first.share, first.name), h("span", {}, second.name, second.share)] : [first.name]));
      }
      const share = typeof chance === "number" ? Math.round(100 * chance) : null;
      ends.forEach((end, place) => setText(end.share, share === null ? "" : `${place ? 100 - share : share} %`));
      const now = JSON.stringify([names, sides]);
      if (now === named) return;
      named = now;
      if (!two) return setText(ends[0].name, clip(names.join(" v "), 90));
      ends.forEach((end, place) => replace(end.name, emblem(names[place]), ...[sides[place], names[place]].filter(Boolean).map((one, part) => h(part ? "small" : "bdi", {}, clip(one, 40)))));
    },
  };
}
