// @ts-check
// A match from afar: the ground with the field that is set, and the way of the last ball.

import { makeGround } from "./ground.js";
import { callWords } from "./intents.js";

const FLIGHT_MS = 450;
/** Smallest size in pixels at which balls and fielders move; smaller drawings are still, because there may be many. */
const LARGE_PX = 220;
const SIGNS = { six: "6", four: "4", wicket: "W" };

export default {
  /** The home side's chance to win; null without a forecast. @param {any} world @returns {number | null} */
  chance({ chances = {}, result, winner }) {
    const balls = chances[Object.keys(chances).sort().at(-1) ?? ""] ?? {};
    const newest = balls[Object.keys(balls).sort().at(-1) ?? ""]?.home ?? null;
    return result && newest !== null ? { home: 1, away: 0 }[/** @type {"home"} */ (winner)] ?? 0.5 : newest;
  },
  call: callWords,
  /** @param {any} ctx */
  mount(ctx) {
    const { element, update } = makeGround(ctx, { margin: [12, 12], sign: ({ kind }) => SIGNS[/** @type {"six"} */ (kind)] ?? "" });
    return {
      element,
      /** @param {any} picture @param {boolean} moves */
      update(picture, moves) {
        const large = moves && element.clientWidth >= LARGE_PX;
        update(picture, large, large ? FLIGHT_MS : 0);
      },
    };
  },
};
