// @ts-check
// The keys of the seats that this tab plays: from a link or a start, kept in this tab, given away.

import { rememberSeat } from "./api.js";

const KEYS = "spectator.seat_keys";

/** @type {Record<string, string[]>} by episode; what the tab's storage holds, where it has one */
let held = {};
try { held = JSON.parse(sessionStorage.getItem(KEYS) ?? "{}"); } catch { /* a frame without storage begins with none */ }

/** @param {string} episodeId @param {string[]} keys */
function keep(episodeId, keys) {
  held[episodeId] = keys;
  try { sessionStorage.setItem(KEYS, JSON.stringify(held)); } catch { /* this page remembers all the same */ }
}

/** The seats of an episode to which this tab has keys. @param {string} episodeId */
export const seatsHeld = (episodeId) => (held[episodeId] ?? []).map((key) => key.slice(0, key.lastIndexOf(".")));

/** What requests for a seat carry. @param {string} episodeId @returns {Record<string, string>} */
export const seatHeaders = (episodeId) => (held[episodeId]?.length ? { "X-Seat-Key": held[episodeId].join(",") } : {});

/** Keep the seat keys from the response to a start. @param {{episode_id: string, seats?: Record<string, {key: string}>}} started */
export function takeStarted(started) {
  const keys = Object.values(started.seats ?? {}).map((seat) => seat.key);
  if (!keys.length) return;
  keep(started.episode_id, keys);
  rememberSeat(started.episode_id);
}

/** Take the seat key from the address and remove it there; returns whether there was one. @param {string} episodeId */
export function takeFromAddress(episodeId) {
  const found = /^#seat=([\w.,-]+)$/.exec(location.hash);
  if (!found) return false;
  keep(episodeId, found[1].split(","));
  rememberSeat(episodeId);
  history.replaceState(history.state, "", location.pathname + location.search);
  return true;
}

/** Give a seat away; returns the link that takes it. @param {string} root @param {string} episodeId @param {string} actor */
export function giveAway(root, episodeId, actor) {
  const keys = held[episodeId] ?? [];
  const given = keys.filter((key) => key.startsWith(`${actor}.`));
  keep(episodeId, keys.filter((key) => !given.includes(key)));
  return new URL(`watch/${encodeURIComponent(episodeId)}#seat=${given.join(",")}`, root).href;
}
