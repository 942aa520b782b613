// @ts-check
// Live frames (docs/live-protocol.md), text in and checked frame out, and the waits before reconnecting.

import { parseJson } from "./json.js";

/**
 * @typedef {object} LiveEvent
 * @property {number} v
 * @property {string} episode_id
 * @property {string} epoch
 * @property {number} seq
 * @property {string} at
 * @property {number} turn
 * @property {string} type
 * @property {Record<string, any>} data
 * @property {Record<string, any>} patch
 */

/**
 * @typedef {{frame: "hello", protocol: number, episode_id: string, epoch: string, head_seq: number, viewers: number}
 *   | {frame: "snapshot", epoch: string, seq: number, state: Record<string, any>}
 *   | ({frame: "event"} & LiveEvent)
 *   | {frame: "viewers", count: number}
 *   | {frame: "trouble", message: string | null, since: string | null}
 *   | {frame: "pong", t: number}
 *   | {frame: "vote", turn: number, voter?: string, refused?: string, reason?: string}
 *   | {frame: "crowd", question?: any, result?: any, turn?: number, votes?: number}
 *   | import("./thoughts.js").ThoughtFrame
 *   | {frame: "bye", code: number, reconnect: boolean, reason: string}} Frame
 */

export const PROTOCOL = 1;

const isText = (/** @type {unknown} */ value) => typeof value === "string";
const isCount = (/** @type {unknown} */ value) => Number.isSafeInteger(value) && Number(value) >= 0;
const isSeconds = (/** @type {unknown} */ value) => typeof value === "number" && value >= 0;
const isObject = (/** @type {unknown} */ value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @type {Record<string, Record<string, (value: unknown) => boolean>>} */
const SHAPES = {
  hello: { episode_id: isText, epoch: isText, head_seq: isCount },
  snapshot: { epoch: isText, seq: isCount, state: isObject },
  event: { epoch: isText, seq: isCount, type: isText, patch: isObject },
  viewers: { count: isCount },
  trouble: { message: (value) => value === null || isText(value) },
  pong: {},
  thought: { actor: isText, turn: isCount, part: isCount, thought: isText, answer: isText, elapsed_s: isSeconds },
  bye: { reason: isText },
  crowd: {},
  vote: {},
};

/**
 * Read one frame.
 * @param {string} text
 * @returns {Frame | null} `null` for a frame of a kind that this page does not know, which it passes over.
 * @throws {Error} The text is not a frame.
 */
export function parseFrame(text) {
  const frame = parseJson(text);
  if (!isObject(frame) || !isText(frame.frame)) throw new Error("not a frame");
  if (!Object.hasOwn(SHAPES, frame.frame)) return null;
  requireShape(frame, SHAPES[frame.frame], frame.frame);
  return frame;
}

/**
 * Read one line of an episode's NDJSON record.
 * @param {string} line
 * @returns {LiveEvent}
 * @throws {Error} The line is not an event.
 */
export function parseEvent(line) {
  const event = parseJson(line);
  if (!isObject(event)) throw new Error("not an event");
  requireShape(event, SHAPES.event, "event");
  return event;
}

/** @param {any} value @param {Record<string, (value: unknown) => boolean>} shape @param {string} name */
function requireShape(value, shape, name) {
  for (const [field, holds] of Object.entries(shape)) {
    if (!holds(value[field])) throw new Error(`${name}.${field} is missing or of another type`);
  }
}

/**
 * Address of a socket or record relative to the page's root, for any prefix.
 * @param {string} root absolute address of the lobby
 * @param {string} path
 * @param {{epoch: string, seq: number} | null} [from] what the viewer already has
 */
export function socketAddress(root, path, from = null) {
  const address = new URL(streamAddress(root, path, from));
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return address.href;
}

/**
 * The same over plain HTTP, for server-sent events.
 * @param {string} root @param {string} path @param {{epoch: string, seq: number} | null} [from]
 */
export function streamAddress(root, path, from = null) {
  const address = new URL(path, root);
  if (from) {
    address.searchParams.set("epoch", from.epoch);
    address.searchParams.set("seq", String(from.seq));
  }
  return address.href;
}

/**
 * Milliseconds before the next attempt: full jitter under a doubling ceiling, 0.5 s to 15 s.
 * @param {number} attempt 0 for the first
 * @param {() => number} random in [0, 1)
 */
export function backoff(attempt, random) {
  const ceiling = Math.min(15_000, 1_000 * 2 ** Math.min(attempt, 10));
  return 500 + random() * (ceiling - 500);
}
