// @ts-check
// The arithmetic of a binned spectrum: merging bins, scaling a background, residuals, axes; pure.

/**
 * A drawn bin. `value` is its count as a bin of the usual width would have it, `share` how much of that width it has: the last bin may be narrower.
 * @typedef {{low: number, high: number, count: number, value: number, share: number, hidden: boolean}} Bin
 */

/** Most bins that are drawn; more are merged. */
const MOST = 110;

/**
 * Bins to draw, merged so that there are at most about a hundred; a merged bin is hidden when any part of it is.
 * @param {number[]} edges @param {number[]} counts @param {number[]} [blinded] low and high of what may not be seen
 * @returns {{bins: Bin[], merged: number}}
 */
export function binsOf(edges, counts, blinded = []) {
  const merged = Math.max(1, Math.ceil(counts.length / MOST));
  const [from, to] = blinded.length === 2 ? blinded : [Infinity, -Infinity];
  /** @type {Bin[]} */ const bins = [];
  for (let first = 0; first < counts.length; first += merged) {
    const last = Math.min(first + merged, counts.length);
    const [low, high] = [edges[first], edges[last]];
    const [count, share] = [sum(counts.slice(first, last)), (last - first) / merged];
    bins.push({ low, high, count, value: count / share, share, hidden: high > from + 1e-9 && low < to - 1e-9 });
  }
  return { bins, merged };
}

/** Expected events, merged as the bins are, for bins of the usual width. @param {number[]} expected @param {number} merged */
export const mergedValues = (expected, merged) => Array.from({ length: Math.ceil(expected.length / merged) }, (_, index) => {
  const part = expected.slice(index * merged, (index + 1) * merged);
  return (sum(part) * merged) / part.length;
});

/**
 * A background that was fitted to another sample, scaled to what is seen of this one.
 * @param {Bin[]} bins @param {number[]} expected as many as bins
 * @param {(bin: Bin) => boolean} [counts] which bins are compared
 */
export function scaled(bins, expected, counts = (bin) => !bin.hidden) {
  const seen = sum(bins.map((bin, index) => (counts(bin) && expected[index] !== undefined ? bin.value : 0)));
  const told = sum(bins.map((bin, index) => (counts(bin) ? expected[index] ?? 0 : 0)));
  return told > 0 && seen > 0 ? expected.map((value) => (value * seen) / told) : expected;
}

/**
 * Central 68 % interval of a Poisson mean, by the approximation of Wilson and Hilferty to Garwood's; 0 to 1.8 for no event.
 * @param {number} count @returns {[number, number]}
 */
export function poissonInterval(count) {
  const cube = (/** @type {number} */ n, /** @type {number} */ z) => (n > 0 ? n * Math.max(0, 1 - 1 / (9 * n) + z / (3 * Math.sqrt(n))) ** 3 : 0);
  return [cube(count, -1), cube(count + 1, 1)];
}

/**
 * How many standard deviations each bin lies from what is expected, for Poisson counts: the signed root of the deviance (Baker and Cousins, NIM 221 (1984) 437). Null for bins that are hidden or without expectation.
 * @param {Bin[]} bins @param {number[]} expected
 */
export const residuals = (bins, expected) => bins.map(({ hidden, count, share }, index) => (hidden || !(expected[index] > 0) ? null : pull(count, expected[index] * share)));

/** @param {number} seen @param {number} mean */
export const pull = (seen, mean) => Math.sign(seen - mean) * Math.sqrt(Math.max(0, 2 * (mean - seen + (seen > 0 ? seen * Math.log(seen / mean) : 0))));

/**
 * The vertical scale of a spectrum: logarithmic where it falls by more than a factor of 40.
 * @param {number[]} values @param {number} base @param {number} top pixels
 */
export function verticalScale(values, base, top) {
  const positive = values.filter((value) => value > 0);
  const [most, least] = [Math.max(1, ...positive), positive.length ? Math.min(...positive) : 0];
  if (positive.length && most / Math.max(least, 0.8) > 40) {
    const [low, high] = [Math.floor(Math.log10(Math.max(least, 0.8)) - 0.2), Math.log10(most * 1.6)];
    const ticks = Array.from({ length: Math.floor(high) - low + 1 }, (_, index) => 10 ** (low + index)).filter((tick) => tick >= 0.5);
    return { logarithmic: true, ticks, y: (/** @type {number} */ value) => base - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (base - top) };
  }
  const floor = least > 0.45 * most ? least - 0.6 * (most - least) : 0;
  const from = Math.max(0, floor);
  const to = most + 0.08 * (most - from);
  return { logarithmic: false, ticks: roundTicks(from, to, 4), y: (/** @type {number} */ value) => base - ((Math.max(value, from) - from) / (to - from)) * (base - top) };
}

/** Round numbers between `low` and `high`, about `count` of them. @param {number} low @param {number} high @param {number} [count] */
export function roundTicks(low, high, count = 6) {
  const rough = (high - low) / count;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, index) => Number(((first + index) * step).toPrecision(10)));
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((total, value) => total + value, 0);
