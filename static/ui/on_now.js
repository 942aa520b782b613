// @ts-check
// The lobby's live episodes: one large, the others as rows, and free slots; else the last finished one.

import { get } from "../live/api.js";
import { choose } from "../live/sight.js";
import { h, keyed, replace, setText } from "./dom.js";
import { mountLargeTile } from "./large_tile.js";
import { makeTile } from "./tile.js";
import { plural } from "./text.js";

/** Rows beside the large one. */
const MOST = 3;
const AGAIN_MS = 2_000;

/** @param {HTMLElement} list @param {HTMLElement} place where one is shown large @param {string} root */
export function mountOnNow(list, place, root) {
  const rows = h("div", { class: "tiles tiles--rows" });
  const room = h("p", { class: "on-room" });
  const none = h("p", { class: "on-none" });
  const go = h("a", { class: "button", hidden: true });
  replace(list, none, h("p", { class: "on-go" }, go), rows, room);
  const live = h("div", { class: "tile-room", hidden: true });
  const before = mountLastPlayed(root);
  const next = /** @type {HTMLElement} */ (place.querySelector(".lobby__next"));
  place.prepend(live, before.element);
  const large = mountLargeTile(live, root);
  /** @type {Map<string, ReturnType<typeof makeTile>>} */
  const made = new Map();
  /** @type {Record<string, any>} */
  let shown = {};
  /** @type {import("../live/api.js").Answer | null} */
  let status = null;
  let scheduled = false;
  let tilesCame = false;

  const schedule = () => {
    if (scheduled || document.hidden) return;
    scheduled = true;
    requestAnimationFrame(draw);
  };
  const draw = () => {
    scheduled = false;
    const found = choose(shown, {});
    const running = found.filter(([, tile]) => tile.status !== "ended");
    large.draw(shown, found, performance.now());
    live.hidden = large.id === "";
    before.show(tilesCame && live.hidden);
    next.hidden = !live.hidden || before.id !== "";
    drawRows(running.filter(([id]) => id !== large.id));
    drawGo(running.length);
    drawRoom(running.length);
  };
  const drawRows = (/** @type {[string, any][]} */ others) => {
    const update = (/** @type {[string, any]} */ [id, tile]) => made.get(id)?.update(tile);
    keyed(rows, others.slice(0, MOST), ([id]) => id, (named) => {
      made.set(named[0], makeTile(named[0], root, "tile--row"));
      update(named);
      return /** @type {ReturnType<typeof makeTile>} */ (made.get(named[0])).element;
    }, (_, named) => update(named));
    for (const id of made.keys()) if (!others.some(([other]) => other === id)) made.delete(id);
  };
  const drawGo = (/** @type {number} */ running) => {
    const id = large.id || before.id;
    go.hidden = id === "";
    if (id) go.href = new URL(`${large.id ? "watch" : "replay"}/${encodeURIComponent(id)}`, root).href;
    setText(go, large.id ? "Watch the featured episode" : "Replay the last one");
    none.hidden = running > 0;
    if (status) setText(none, status.ok ? "Nothing is live. Start a match: it begins at once, and everyone who opens this page can watch." : status.message);
  };
  const drawRoom = (/** @type {number} */ count) => {
    if (!status?.ok || count === 0) return replace(room);
    const { running, slots } = /** @type {any} */ (status).body;
    const real = running.filter((/** @type {any} */ one) => !one.exhibition);
    const taken = `${real.length} of ${plural(slots, "slot")} taken`;
    if (real.length === 0) return replace(room, "This match gives way: start one of your own at any time.");
    replace(room, real.length >= slots ? `${taken}: another can begin when one ends.` : `${taken}.`,
      count > 1 ? [" ", h("a", { href: new URL("wall", root).href }, count > MOST + 1 ? `See all ${count} on the wall` : "See them on the wall")] : null);
  };
  before.onKnown(schedule);
  setInterval(schedule, AGAIN_MS); // what has ended gives way though nothing changes
  return {
    /** @param {Record<string, any>} tiles */
    show(tiles) {
      shown = tiles;
      tilesCame = true;
      schedule();
    },
    /** @param {import("../live/api.js").Answer} answer of /custom/status */
    update(answer) {
      status = answer;
      schedule();
    },
  };
}

/** The last finished episode, fetched when it is first shown. @param {string} root */
function mountLastPlayed(root) {
  const element = h("div", { class: "tile-room", hidden: true });
  let id = "";
  let asked = false;
  let tell = () => {};

  async function ask() {
    const list = await get(root, "api/episodes?ended=true&reason=finished&limit=1");
    const newest = list.ok ? list.body.episodes[0]?.episode_id : undefined;
    const answer = newest ? await get(root, `api/episodes/${encodeURIComponent(newest)}/tile`) : list;
    if (newest && answer.ok) {
      const tile = makeTile(newest, root, "tile--look");
      tile.element.href = new URL(`replay/${encodeURIComponent(newest)}`, root).href;
      tile.update(answer.body);
      replace(element, tile.element);
      id = newest;
    }
    tell();
  }
  return {
    element,
    get id() { return element.hidden ? "" : id; },
    /** @param {() => void} action when it is known */
    onKnown(action) { tell = action; },
    /** @param {boolean} wanted */
    show(wanted) {
      if (!wanted) asked = false;
      else if (!asked) {
        asked = true;
        void ask();
      }
      element.hidden = !wanted || id === "";
    },
  };
}
