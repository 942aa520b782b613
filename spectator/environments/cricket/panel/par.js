// @ts-check
// How an innings compares with real ones, in words; pure.

import { ordinal } from "./words.js";

/** @param {any} world @returns {Record<string, any>} */
export const parOf = (world) => world.par?.[world.innings] ?? {};

/** Where the innings stands among real ones after its last over. @param {any} world */
export function parWords(world) {
  if (world.super_over || !world.format) return "";
  const standing = world.standing?.[world.innings];
  const over = Object.keys(standing ?? {}).map(Number).sort((a, b) => b - a)[0];
  if (over === undefined) return world.par ? "Par, from real 20-over innings, is shown from the first over on." : "No par: the real innings all had 20 overs.";
  const score = world.scorecards?.[world.innings]?.overs?.[over]?.score;
  const share = standing[over];
  const place = share <= 5 ? "in the lowest 5 %" : share >= 95 ? "in the highest 5 %" : `at the ${ordinal(share)} percentile`;
  return `${score} after ${over}: ${place} of 658 real ${world.innings === 1 ? "first" : "second"} innings, men’s T20, 2018 to 2024.`;
}
