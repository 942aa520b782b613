// @ts-check
// Comparison of an innings with real ones, in words; pure.

import { ordinal } from "./words.js";

/** @param {any} world @returns {Record<string, any>} */
export const parOf = (world) => world.par?.[world.innings] ?? {};

/** The innings' percentile among real ones after its last over, in words. @param {any} world */
export function parWords(world) {
  if (world.super_over || !world.format) return "";
  const standing = world.standing?.[world.innings];
  const over = Object.keys(standing ?? {}).map(Number).sort((a, b) => b - a)[0];
  if (over === undefined) return world.par ? "Par from real 20-over innings appears after the first over." : "No par: it comes from real innings of 20 overs.";
  const score = world.scorecards?.[world.innings]?.overs?.[over]?.score;
  const share = standing[over];
  const place = share <= 5 ? "among the lowest twentieth" : share >= 95 ? "among the highest twentieth" : `at the ${ordinal(share)} percentile`;
  return `${score} after ${over}: ${place} of 658 real ${world.innings === 1 ? "first" : "second"} innings, men’s T20, 2018 to 2024.`;
}
