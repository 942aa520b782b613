// @ts-check
// The strip of what is on: a live tile for each running episode, and how much room is left.

import { choose } from "../live/sight.js";
import { h, keyed, replace, setText } from "./dom.js";
import { makeTile } from "./tile.js";
import { plural } from "./text.js";

const MOST = 8;

/** @param {HTMLElement} list @param {string} root */
export function mountOnNow(list, root) {
  const tiles = h("div", { class: "tiles" });
  const room = h("p", { class: "on-room" });
  const none = h("p", { class: "card on-none" }, "Looking for what is on…");
  replace(list, none, tiles, room);
  /** @type {Map<string, ReturnType<typeof makeTile>>} */
  const made = new Map();
  /** @type {Record<string, any>} */
  let shown = {};
  /** @type {import("../live/api.js").Answer | null} */
  let status = null;
  let scheduled = false;

  const schedule = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  };
  const draw = () => {
    scheduled = false;
    const found = choose(shown, {}).filter(([, tile]) => tile.status !== "ended");
    const viewers = new Map([...status?.body?.running ?? [], ...status?.body?.shown ?? []].map((/** @type {any} */ one) => [one.episode_id, one.viewers]));
    const update = (/** @type {[string, any]} */ [id, tile]) => made.get(id)?.update(tile, viewers.get(id) ? plural(viewers.get(id), "watching", "watching") : "");
    keyed(tiles, found.slice(0, MOST), ([id]) => id, (named) => {
      const tile = makeTile(named[0], root);
      made.set(named[0], tile);
      update(named);
      return tile.element;
    }, (_, named) => update(named));
    for (const id of made.keys()) if (!found.some(([other]) => other === id)) made.delete(id);
    none.hidden = found.length > 0;
    if (status) setText(none, status.ok ? "Nothing is on. Start one below: it begins at once, and everybody who opens this page can watch." : status.message);
    drawRoom(found.length);
  };
  const drawRoom = (/** @type {number} */ count) => {
    if (!status?.ok || count === 0) return replace(room);
    const { running, slots } = /** @type {any} */ (status).body;
    const taken = `${running.length} of ${plural(slots, "place")} taken`;
    replace(room, running.length >= slots ? `${taken}: another can begin when one ends.` : `${taken}.`,
      count > 1 ? [" ", h("a", { href: new URL("wall", root).href }, count > MOST ? `See all ${count} on the wall` : "See them on the wall")] : null);
  };
  return {
    /** @param {Record<string, any>} tiles_ */
    show(tiles_) {
      shown = tiles_;
      schedule();
    },
    /** @param {import("../live/api.js").Answer} answer of /custom/status */
    update(answer) {
      status = answer;
      schedule();
    },
  };
}
