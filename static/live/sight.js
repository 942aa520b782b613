// @ts-check
// The choice among tiles: which match a filter, and in which order. Pure.

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
