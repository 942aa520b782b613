// @ts-check
// One episode shown large, chosen by the director or by the viewer.

import { Director } from "../live/director.js";
import { replace } from "./dom.js";
import { makeTile } from "./tile.js";

/** @param {HTMLElement} place @param {string} root */
export function mountLargeTile(place, root) {
  const director = new Director();
  /** @type {{id: string, tile: ReturnType<typeof makeTile>} | null} */ let shown = null;
  return {
    /** Which episode is shown; empty for none. */
    get id() { return shown?.id ?? ""; },
    /**
     * @param {Record<string, any>} tiles all that is known @param {import("../live/sight.js").Named[]} found those that may be shown @param {number} now milliseconds
     * @param {string} [wanted] the episode that the viewer pinned
     * @returns {string} why this one; empty where none is shown
     */
    draw(tiles, found, now, wanted = "") {
      director.take(tiles, now);
      const chosen = found.length ? director.choose(found, now, wanted) : null;
      if (chosen?.id !== shown?.id) {
        shown = chosen && { id: chosen.id, tile: makeTile(chosen.id, root, "tile--look") };
        replace(place, shown && shown.tile.element);
      }
      if (shown && tiles[shown.id]) shown.tile.update(tiles[shown.id]);
      return chosen?.why ?? "";
    },
  };
}
