// @ts-check
// Owns the choice among tiles: which match a filter, in which order, and which one is worth looking at. Pure.

/** @typedef {import("./wall.js").Tile} Tile */
/** @typedef {[string, Tile]} Named an episode's id and its tile */

export const ORDERS = { newest: "newest first", closest: "closest finish first", furthest: "furthest along first" };

/** @param {Tile} tile */
const suspense = (tile) => (tile.status === "ended" ? 0 : Number(tile.glance?.suspense ?? 0));
/** @param {Tile} tile */
const progress = (tile) => Number(tile.glance?.progress ?? 0);

/**
 * @param {Record<string, Tile>} tiles @param {{text?: string, environment?: string, order?: string}} wanted
 * @returns {Named[]}
 */
export function choose(tiles, { text = "", environment = "", order = "newest" }) {
  const asked = text.trim().toLowerCase();
  const found = Object.entries(tiles).filter(([id, tile]) => (!environment || tile.environment === environment)
    && (!asked || [tile.headline, tile.title, ...(tile.seats ?? []), `seed ${tile.seed}`, id].join(" ").toLowerCase().includes(asked)));
  /** @param {Named} a @param {Named} b */
  const newest = ([, a], [, b]) => (a.started_at < b.started_at ? 1 : a.started_at > b.started_at ? -1 : 0);
  if (order === "closest") return found.sort((a, b) => suspense(b[1]) - suspense(a[1]) || newest(a, b));
  if (order === "furthest") return found.sort((a, b) => progress(b[1]) - progress(a[1]) || newest(a, b));
  return found.sort(newest);
}

/**
 * What to look at: the closest finish, else where something big has just happened, else the furthest along. It stays
 * with what it looks at for a while, so that nobody is torn from a match at every ball.
 * @param {Named[]} tiles @param {{id: string, since_ms: number} | null} now @param {number} now_ms
 * @returns {string | null}
 */
export function worthALook(tiles, now, now_ms) {
  const running = tiles.filter(([, tile]) => tile.status !== "ended");
  const held = now && tiles.find(([id]) => id === now.id);
  if (held && now_ms - now.since_ms < (held[1].status === "ended" ? 8_000 : 20_000)) return now.id;
  const weight = (/** @type {Tile} */ tile) => 10 * suspense(tile) + (tile.line?.priority <= 1 ? 1 : 0) + progress(tile);
  const best = running.reduce((/** @type {Named | null} */ chosen, one) => (chosen && weight(chosen[1]) >= weight(one[1]) ? chosen : one), null);
  if (held && held[1].status !== "ended" && best && weight(best[1]) < weight(held[1]) + 0.5) return held[0];
  return best?.[0] ?? held?.[0] ?? null;
}
