// @ts-check
// How long the last ball is drawn in flight before its result is shown: not at all if balls come quickly.

/** Longest flight, in milliseconds. */
const LONGEST_MS = 900;
/** Of the time between two balls, the part that the flight may take. */
const SHARE = 0.3;
/** Shorter flights cannot be followed. */
const SHORTEST_MS = 120;

/** @param {() => number} [now] milliseconds */
export function makeFlight(now = () => performance.now()) {
  let seq = -1;
  let bowledAt = -Infinity;
  let until = -Infinity;
  let took = 0;
  return {
    /** Take in the ball that is shown now; says whether it is a new one. @param {number | undefined} ballSeq @param {boolean} moves */
    take(ballSeq, moves) {
      if (ballSeq === seq) return false;
      const at = now();
      const flight = Math.min(LONGEST_MS, SHARE * (at - bowledAt));
      took = moves && ballSeq !== undefined && flight >= SHORTEST_MS ? flight : 0;
      [seq, bowledAt, until] = [ballSeq ?? -1, at, at + took];
      return true;
    },
    get seq() { return seq; },
    /** Milliseconds of the newest ball's flight; 0 if it is not shown. */
    get took() { return took; },
    /** Milliseconds until the ball has come to rest. */
    get left() { return Math.max(0, until - now()); },
  };
}
