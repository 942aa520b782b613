// @ts-check
// The reading of an episode's kept events over HTTP: what replays, and what fills in when no socket opens.

import { parseEvent } from "./protocol.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */

/**
 * Read events in order, a batch whenever some have arrived.
 * @param {string} root absolute address of the lobby
 * @param {string} episodeId
 * @param {number} afterSeq
 * @param {(events: LiveEvent[]) => void} onEvents
 * @param {typeof fetch} [get]
 * @returns {Promise<number>} how many there were
 * @throws {Error} The server refused or the record is broken; says so in words.
 */
export async function readRecord(root, episodeId, afterSeq, onEvents, get = fetch) {
  const address = new URL(`api/episodes/${encodeURIComponent(episodeId)}/events`, root);
  address.searchParams.set("after_seq", String(afterSeq));
  const response = await get(address);
  if (!response.ok || !response.body) throw new Error(`the record answered ${response.status}`);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let count = 0;
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop() ?? "";
    const events = lines.filter((line) => line.trim() !== "").map(parseEvent);
    count += events.length;
    if (events.length) onEvents(events);
    if (done) return count;
  }
}

/** The whole record. @param {string} root @param {string} episodeId @returns {Promise<LiveEvent[]>} */
export async function readWholeRecord(root, episodeId) {
  /** @type {LiveEvent[]} */
  const record = [];
  await readRecord(root, episodeId, 0, (events) => record.push(...events));
  return record;
}
