// @ts-check
// A sentence on what was just done, seen and read aloud.

import { h, setText } from "./dom.js";

const SAID_MS = 4_000;

/**
 * @param {HTMLElement} place a live region
 * @returns {(words: string, stays?: boolean) => void} says it there, for a while unless it stays
 */
export function confirmIn(place) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let clearing;
  return (words, stays = false) => {
    clearTimeout(clearing);
    setText(place, words);
    if (!stays) clearing = setTimeout(() => setText(place, ""), SAID_MS);
  };
}

/** The same above the foot of the page, in one place for all that say something there. */
export function toast() {
  const place = document.querySelector(".toast") ?? document.body.appendChild(h("p", { class: "toast", role: "status" }));
  return confirmIn(/** @type {HTMLElement} */ (place));
}

/** Copy an address, and say whether that worked. @param {string} address @param {(words: string) => void} say @param {string} otherwise what to do if it did not */
export async function copyLink(address, say, otherwise) {
  try {
    await navigator.clipboard.writeText(address);
    say("Link copied");
  } catch {
    say(otherwise);
  }
}
