// @ts-check
// The arithmetic and the marks of small charts in SVG; the arithmetic is pure.

import { h, svg } from "../ui/dom.js";

/**
 * A linear scale.
 * @param {[number, number]} domain @param {[number, number]} range
 * @returns {(value: number) => number}
 */
export function linear([d0, d1], [r0, r1]) {
  const slope = d1 === d0 ? 0 : (r1 - r0) / (d1 - d0);
  return (value) => r0 + (value - d0) * slope;
}

/**
 * Round numbers from 0 that cover `max`, about `count` of them, in steps of 1, 2 or 5 times a power of ten.
 * @param {number} max @param {number} [count]
 */
export function ticks(max, count = 4) {
  if (!(max > 0)) return [0];
  const rough = max / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10));
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, index) => index * step);
}

/**
 * Round numbers that cover the values from `least` to `most`, about `count` of them; around a single value too.
 * @param {number} least @param {number} most @param {number} [count] @param {boolean} [whole] whether only whole numbers are used
 * @returns {number[]} at least two, in order
 */
export function span(least, most, count = 4, whole = false) {
  const wide = most - least || Math.abs(most) || 1;
  const power = 10 ** Math.floor(Math.log10(wide / count));
  const nice = power * ([1, 2, 5, 10].find((factor) => factor * power >= wide / count) ?? 10);
  const step = whole ? Math.max(1, Math.round(nice)) : nice;
  const [first, last] = [Math.floor(least / step + 1e-9), Math.ceil(most / step - 1e-9)];
  const end = last === first ? first + 1 : last;
  return Array.from({ length: end - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** @param {[number, number][]} points @returns {string} path data */
export function linePath(points) {
  return points.map(([x, y], index) => `${index ? "L" : "M"}${round(x)} ${round(y)}`).join("");
}

/** @param {[number, number][]} points @returns {string} path data of a curve by way of one middle point */
export function arcPath([[x0, y0], [x1, y1]], bend = 0.12) {
  const [mx, my] = [(x0 + x1) / 2 - (y1 - y0) * bend, (y0 + y1) / 2 + (x1 - x0) * bend];
  return `M${round(x0)} ${round(y0)}Q${round(mx)} ${round(my)} ${round(x1)} ${round(y1)}`;
}

/** @param {number} value */
export const round = (value) => Math.round(value * 100) / 100;

/**
 * Horizontal lines with their figures at the left.
 * @param {number[]} values @param {(value: number) => number} y @param {{left: number, right: number}} span
 */
export function grid(values, y, { left, right }) {
  return svg("g", { class: "chart__grid", "aria-hidden": "true" }, ...values.flatMap((value) => [
    svg("path", { d: `M${left} ${round(y(value))}H${right}` }),
    svg("text", { x: left - 6, y: round(y(value)) + 3.5, "text-anchor": "end" }, String(value)),
  ]));
}

/**
 * Keep `--px` on a drawing, its own units in a pixel of the screen, so that styles can keep its words readable.
 * @template {SVGSVGElement} T @param {T} drawing @returns {T}
 */
export function readable(drawing) {
  new ResizeObserver(() => {
    const scale = drawing.getScreenCTM()?.a;
    if (scale) drawing.style.setProperty("--px", (1 / scale).toFixed(3));
  }).observe(drawing);
  return drawing;
}

/**
 * A chart's figures as a table, for those who cannot see it.
 * @param {string} caption @param {string[]} head @param {(string | number)[][]} rows
 */
export function figuresTable(caption, head, rows) {
  return h("table", { class: "unseen" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, index) =>
      (index ? h("td", {}, cell) : h("th", { scope: "row" }, cell)))))));
}
