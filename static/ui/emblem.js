// @ts-check
// The emblem of a captain: letters, shape and colour follow from its name.

import { h } from "./dom.js";

/** Looks in styles/components/card.css; spectator/text.py draws the same. */
const LOOKS = 12;
/** Gives the built-in captains of one league different looks. */
const SPREAD = 364;

/** @param {string} label the captain's name for people */
export function emblem(label) {
  const initials = label.split("(")[0].split(/\s+/).filter((word) => /^[\p{L}\p{N}]/u.test(word)).slice(0, 2).map((word) => [...word][0].toUpperCase());
  const look = [...label].reduce((sum, letter, place) => sum + (place + 1) * Number(letter.codePointAt(0)), 0) % SPREAD % LOOKS;
  return h("i", { class: `emblem emblem--${look}`, "aria-hidden": "true" }, initials.join("") || "?");
}
