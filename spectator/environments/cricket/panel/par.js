// @ts-check
// How an innings compares with others of its kind, in words; pure.

import { ordinal } from "./words.js";

/** What every chance on the page assumes. */
export const EQUAL = "Chances count both captains as equally good.";

/** @param {any} world @returns {Record<string, any>} */
export const parOf = (world) => world.par?.[world.innings] ?? {};

/** Whether par was measured in real matches; otherwise it is what average sides make of such a match. @param {any} world */
export const parIsReal = (world) => world.format?.overs === 20 && !world.format.profile && world.format.level === undefined;

/** Profile, scoring level and length of a match. @param {any} world */
const kindWords = ({ format }) => [format.profile ?? "men", ...format.level === undefined ? [] : [`level ${Math.round(format.level)}`], `${format.overs} overs`].join(", ");

/** Where the innings stands among others of its kind after its last over. @param {any} world */
export function parWords(world) {
  if (world.super_over || !world.format) return "";
  const standing = world.standing?.[world.innings];
  const over = Object.keys(standing ?? {}).map(Number).sort((a, b) => b - a)[0];
  if (over === undefined) return world.par ? "Par is shown from the first over on." : "";
  const score = world.scorecards?.[world.innings]?.overs?.[over]?.score;
  const share = standing[over];
  const place = share <= 5 ? "in the lowest 5 %" : share >= 95 ? "in the highest 5 %" : `at the ${ordinal(share)} percentile`;
  const others = parIsReal(world) ? `658 real ${world.innings === 1 ? "first" : "second"} innings, men’s T20, 2018 to 2024` : `what average sides make of a first innings (${kindWords(world)})`;
  return `${score} after ${over}: ${place} of ${others}.`;
}
