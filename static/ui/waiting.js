// @ts-check
// Waiting for a slot: asks again and again with the ticket of the last answer, and says which place that is.

import { call } from "../live/api.js";

/** Seconds that one request waits; after each the place is shown again. */
const WAIT_S = 8;

/** Milliseconds before a visitor without a place in the queue asks again. */
const FULL_MS = 5_000;

/**
 * @param {string} root @param {object} fields of the request
 * @param {(words: string) => void} say shows the place, before the first wait and after each
 * @param {AbortSignal} signal gives up, and leaves the queue
 * @returns {Promise<import("../live/api.js").Answer | null>} the answer; null if cancelled
 */
export async function waitForSlot(root, fields, say, signal) {
  let wait = 1; // the first answer says the place soon
  let ticket = null;
  while (!signal.aborted) {
    const answer = await call(root, "custom/start_episode", { ...fields, wait_s: wait, ...(ticket ? { ticket } : {}) }, "POST", signal);
    if (signal.aborted) return null;
    if (answer.status !== 409) return answer;
    const queue = answer.body?.queue ?? {};
    ticket = queue.ticket ?? null;
    say(placeInWords(queue));
    wait = WAIT_S;
    if (!ticket) await new Promise((done) => setTimeout(done, FULL_MS));
  }
  return null;
}

/** @param {{place?: number, waiting?: number, within_s?: number}} queue @returns {string} */
export function placeInWords({ place, waiting = 0, within_s: within }) {
  if (!place) return "The queue is full. Trying again.";
  const soon = within === undefined || within === null ? "" : ` A slot should be free within ${Math.max(1, Math.ceil(within / 60))} min.`;
  return `${place === 1 ? "You are next" : `You are number ${place}`} of ${Math.max(waiting, place)} in the queue.${soon}`;
}
