// @ts-check
// The texts of a seat: the situation, the time left, what it waits for.

import { clip, plain, words } from "./text.js";

const SENTENCE = /^\S+(\s+\S+){3,}$/u;

/**
 * What a situation says in single values: its sentences, and the rest by name.
 * @param {Record<string, any>} situation @returns {{sentences: string[], facts: [string, string][]}}
 */
export function factsOf(situation) {
  const single = Object.entries(situation).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value))
    .map(([name, value]) => /** @type {[string, string]} */ ([words(name), value === true ? "yes" : value === false ? "no" : clip(plain(value), 200)]));
  const isSentence = (/** @type {[string, string]} */ [, text]) => SENTENCE.test(text);
  return { sentences: single.filter(isSentence).map(([, text]) => text), facts: single.filter((one) => !isSentence(one)) };
}

/** `75` as `1:15`. @param {number} seconds */
export const clockText = (seconds) => `${Math.floor(Math.ceil(seconds) / 60)}:${String(Math.ceil(seconds) % 60).padStart(2, "0")}`;

/** @param {any} body what the server answers @param {(actor: string) => string} nameOf */
export function waitingWords(body, nameOf) {
  if (body.paused) return "The match is paused.";
  if (!body.yours.length) return "Two people play here, each with their own link.";
  const other = body.deciding && !body.yours.includes(body.deciding);
  return other ? `${nameOf(body.deciding)} is deciding…` : "Waiting for your turn…";
}
