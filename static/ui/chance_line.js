// @ts-check
// How the chance to win went so far, drawn in a tile: the first seat's share below the line, the other's above.

import { linePath, round } from "../charts/charts.js";
import { setAttribute, svg } from "./dom.js";

const WIDTH = 400;
const HEIGHT = 100;

/** @typedef {{count: number, every: number, percent: Record<string, number[]>}} Chances as in docs/live-protocol.md */

/**
 * The points of the line, from 0 to `WIDTH` and from 0, where the first seat wins, to `HEIGHT`.
 * @param {Chances} chances @param {number} newest the chance after the last event @param {number} progress how far the episode has come, of 1
 * @returns {[number, number][]}
 */
export function pointsOf({ count, every, percent }, newest, progress) {
  const told = Object.values(percent).flat();
  const step = count > 1 ? (WIDTH * progress) / (count - 1) : 0;
  const points = told.map((value, place) => /** @type {[number, number]} */ ([place * every * step, HEIGHT - value]));
  return [...points, [(count - 1) * step, HEIGHT * (1 - newest)]];
}

/**
 * Where the line is at one of the chances, also of those that are left out. @param {[number, number][]} points @param {Chances} chances @param {number} place
 * @returns {[number, number]}
 */
export function markAt(points, { count, every }, place) {
  const before = Math.min(Math.floor(place / every), points.length - 2);
  const [[x0, y0], [x1, y1]] = [points[Math.max(0, before)], points[before + 1]];
  const x = count > 1 ? (points.at(-1)?.[0] ?? 0) * (place / (count - 1)) : 0;
  return [x, x1 > x0 ? y0 + ((y1 - y0) * (x - x0)) / (x1 - x0) : y1];
}

/** Hidden from screen readers: the chances are below it in words. */
export function makeChanceLine() {
  const area = (/** @type {string} */ of) => svg("path", { class: `chance-line__${of}` });
  const parts = { second: area("second"), first: area("first"), ahead: area("ahead"), half: svg("path", { class: "chance-line__half", d: `M0 ${HEIGHT / 2}H${WIDTH}` }), line: area("line"), marks: area("marks"), now: area("now") };
  const element = svg("svg", { class: "chance-line", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...Object.values(parts));
  return {
    element,
    /** @param {Chances} chances @param {number} newest @param {number} progress @param {number[]} marks which of the chances are marked */
    update(chances, newest, progress, marks) {
      const points = pointsOf(chances, newest, progress);
      const path = linePath(points);
      const [x, y] = points[points.length - 1];
      setAttribute(parts.line, "d", path);
      setAttribute(parts.first, "d", `${path}H${WIDTH}V${HEIGHT}H0z`);
      setAttribute(parts.second, "d", `${path}H${WIDTH}V0H0z`);
      setAttribute(parts.ahead, "d", `M${round(x)} 0H${WIDTH}V${HEIGHT}H${round(x)}z`);
      // Lines of no length with round ends: circles that stay round however the drawing is stretched.
      setAttribute(parts.marks, "d", marks.filter((place) => place < chances.count).map((place) => markAt(points, chances, place)).map(([mx, my]) => `M${round(mx)} ${round(my)}h0`).join(""));
      setAttribute(parts.now, "d", `M${round(x)} ${round(y)}h0`);
    },
  };
}
