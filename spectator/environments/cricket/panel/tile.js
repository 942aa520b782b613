// @ts-check
// A match from afar: the ground with the field that is set, and the way of the last ball.

import { makeGround } from "./ground.js";

const FLIGHT_MS = 450;
/** Smallest size in pixels at which balls and fielders move; smaller drawings are still, because there may be many. */
const LARGE_PX = 220;
const SIGNS = { six: "6", four: "4", wicket: "W" };

export default {
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
