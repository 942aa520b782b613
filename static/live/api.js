// @ts-check
// Requests to the server's JSON surfaces, and the reading of their refusals (RFC 9457 problems).

import { parseJson } from "./json.js";

/**
 * @typedef {object} Answer
 * @property {boolean} ok
 * @property {number} status 0 when the server could not be reached
 * @property {any} body
 * @property {string} message the refusal in words; empty when ok
 * @property {{field: string, rule: string}[]} wrong fields that were refused
 */

const TOKEN = "spectator.operator";

/** @param {string} token */
export function rememberToken(token) {
  try { sessionStorage.setItem(TOKEN, token.trim()); } catch { /* a frame without storage asks again */ }
}

export function recallToken() {
  try { return sessionStorage.getItem(TOKEN) ?? ""; } catch { return ""; }
}

const SEAT = "spectator.seat";

/** Which episode this tab plays in; empty for none. @param {string} episodeId */
export function rememberSeat(episodeId) {
  try { sessionStorage.setItem(SEAT, episodeId); } catch { /* a frame without storage takes the seat anew */ }
}

export function recallSeat() {
  try { return sessionStorage.getItem(SEAT) ?? ""; } catch { return ""; }
}

/** @param {string} root @param {string} path @returns {Promise<Answer>} */
export const get = (root, path) => ask(new URL(path, root), {});

/** Read with the operator's token, or with the headers in `more`. @param {string} root @param {string} path @param {Record<string, string>} [more] @returns {Promise<Answer>} */
export const read = (root, path, more = {}) => ask(new URL(path, root), { headers: { ...authorization(), ...more } });

/** The same of an answer of one JSON value a line: its body is the list of them. @param {string} root @param {string} path @returns {Promise<Answer>} */
export const readLines = (root, path) => ask(new URL(path, root), { headers: authorization() }, (text) => text.split("\n").filter(Boolean).map((line) => parseJson(line)));

/** @param {string} root @param {string} path @param {object} fields @param {string} [method] @param {AbortSignal} [signal] gives up @param {Record<string, string>} [more] headers @returns {Promise<Answer>} */
export function call(root, path, fields, method = "POST", signal = undefined, more = {}) {
  return ask(new URL(path, root), {
    method,
    signal,
    headers: { "Content-Type": "application/json", ...authorization(), ...more },
    body: JSON.stringify(fields),
  });
}

/** @returns {Record<string, string>} */
function authorization() {
  const token = recallToken();
  return /^[\x21-\x7e]+$/.test(token) ? { Authorization: `Bearer ${token}` } : {};
}

/** @param {URL} address @param {RequestInit} options @param {(text: string) => any} [parse] what it answers when all is well @returns {Promise<Answer>} */
async function ask(address, options, parse = parseJson) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    return { ok: false, status: 0, body: null, wrong: [], message: "The server cannot be reached. Is it running, and are you online?" };
  }
  const body = await response.text().then(response.ok ? parse : parseJson).catch(() => null);
  const message = response.ok ? "" : problemMessage(response.status, body, response.headers.get("Retry-After"));
  return { ok: response.ok, status: response.status, body, message, wrong: wrongFields(body) };
}

/** @param {number} status @param {any} body @param {string | null} retryAfter @returns {string} */
export function problemMessage(status, body, retryAfter = null) {
  const detail = typeof body?.detail === "string" ? body.detail : typeof body?.title === "string" ? body.title : "";
  if (status === 401) return detail || "This needs the operator’s token.";
  if (status === 403) return detail || "This is not allowed from here.";
  if (status === 429) return `${detail || "Too many requests."}${retryAfter ? ` Try again in ${retryAfter} s.` : ""}`;
  return detail || `The server answered ${status}.`;
}

/** @param {any} body @returns {{field: string, rule: string}[]} */
export function wrongFields(body) {
  const list = body?.errors ?? body?.fields ?? body?.wrong ?? [];
  if (!Array.isArray(list)) return [];
  return list.map((item) => ({
    field: String(item?.field ?? item?.loc?.join?.(".") ?? "body"),
    rule: String(item?.rule ?? item?.message ?? item?.msg ?? "is invalid"),
  }));
}
