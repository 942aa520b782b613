// @ts-check
// The ways in which frames reach a page: a WebSocket, and server-sent events where none gets through.

import { socketAddress, streamAddress } from "./protocol.js";

/**
 * What a connection uses, whichever way it goes.
 * @typedef {object} Line
 * @property {number} readyState 1 when something can be sent
 * @property {(text: string) => void} send
 * @property {() => void} close
 * @property {((message: {data: unknown}) => void) | null} onmessage
 * @property {((closed: {reason: string}) => void) | null} onclose
 */

/**
 * @typedef {object} Way
 * @property {"socket" | "stream"} name
 * @property {() => string} address asked before every attempt, so that it can say what the viewer has
 * @property {(address: string) => Line} open
 * @property {number} deadAfterMs silence after which the connection counts as dead
 */

/**
 * Both ways to one episode, the better first.
 * @param {string} root absolute address of the lobby
 * @param {string} path of the episode's live frames
 * @param {() => {epoch: string, seq: number} | null} place what the viewer has
 * @returns {Way[]}
 */
export function waysTo(root, path, place) {
  return [
    { name: "socket", address: () => socketAddress(root, path, place()), open: (address) => /** @type {any} */ (new WebSocket(address)), deadAfterMs: 20_000 },
    { name: "stream", address: () => streamAddress(root, `${path}/events`, place()), open: (address) => lineOf(new EventSource(address)), deadAfterMs: 45_000 },
  ];
}

/**
 * Server-sent events in the shape of a read-only socket. It never reconnects by itself: the connection
 * says when, and what the viewer has.
 * @param {EventSource} source @returns {Line}
 */
export function lineOf(source) {
  /** @type {Line} */
  const line = { readyState: 0, send() {}, close: () => source.close(), onmessage: null, onclose: null };
  source.onmessage = (message) => line.onmessage?.(message);
  source.addEventListener("beat", () => line.onmessage?.({ data: '{"frame":"beat"}' }));
  source.onerror = () => {
    source.close();
    line.onclose?.({ reason: "" });
  };
  return line;
}
