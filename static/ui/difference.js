// @ts-check
// The chart of two figures over the steps, and of their difference.

import { figuresTable, grid, linear, linePath, readable, round, ticks } from "../charts/charts.js";
import { differences, placeAt } from "../live/steps.js";
import { h, replace, svg } from "./dom.js";

/** Least and most width of the picture, in its own units: on a phone it is drawn narrower, not smaller. */
const [NARROW, WIDE] = [480, 1200];
const LEFT = 44;
const TOP = 12;
const MIDDLE = 190;
const BOTTOM = 280;

/** Most width of a bar of the difference. */
const BAR = 24;

/** @typedef {import("../live/steps.js").Place} Place */

/** @type {WeakMap<HTMLElement, {key: string, cursor: SVGElement, x: (step: number) => number}>} */
const drawn = new WeakMap();

/**
 * @param {HTMLElement} place @param {Place[][]} both
 * @param {{step: number, partedAt: number | null, unit: string, go: (step: number) => void}} view
 */
export function drawDifference(place, both, { step, partedAt, unit, go }) {
  const span = Math.min(WIDE, Math.max(NARROW, (place.parentElement ?? place).clientWidth));
  const key = [...both.map((places) => places.length), partedAt, unit, span].join();
  const known = drawn.get(place);
  const chart = known?.key === key ? known : make(place, both, { partedAt, unit, go, key, span });
  if (chart) chart.cursor.setAttribute("d", `M${chart.x(step)} ${TOP}V${BOTTOM}`);
}

/** @param {HTMLElement} place @param {Place[][]} both @param {any} view */
function make(place, both, { partedAt, unit, go, key, span }) {
  const figures = both.flatMap((places) => places.flatMap(({ value }) => (value === null ? [] : [value])));
  place.hidden = figures.length === 0;
  if (place.hidden) return null;
  const last = Math.max(1, ...both.map((places) => places.at(-1)?.step ?? 0));
  const x = linear([0, last], [LEFT, span - 8]);
  const marks = ticks(Math.max(1, ...figures));
  const y = linear([Math.min(0, ...figures), marks.at(-1) ?? 1], [MIDDLE, TOP]);
  const rest = differences(both[0], both[1]);
  const most = Math.max(1, ...rest.map(([, value]) => Math.abs(value)));
  const dy = linear([-most, most], [BOTTOM, MIDDLE + 30]);
  const width = Math.min(BAR, Math.max(1, (span - LEFT) / (last + 1) - 1));
  const cursor = svg("path", { class: "difference__cursor" });
  const picture = svg("svg", { class: "difference__picture", viewBox: `0 0 ${span} ${BOTTOM + 8}`, role: "img", "aria-label": `${unit || "The figure"} of both, and the difference` },
    grid(marks, y, { left: LEFT, right: span - 8 }),
    ...both.flatMap((places, index) => runs(places).map((run) => svg("path", { class: `difference__line difference__line--${"ab"[index]}`, d: linePath(run.map(({ step, value }) => [x(step), y(value ?? 0)])) }))),
    svg("text", { class: "difference__word", x: LEFT + 6, y: MIDDLE + 22 }, rest.length ? `Difference, first minus second: ${signed(rest.at(-1)?.[1] ?? 0)} at the end` : "No difference: only one of them has figures"),
    svg("path", { class: "difference__zero", d: `M${LEFT} ${dy(0)}H${span - 8}` }),
    ...rest.map(([step, value]) => svg("rect", { class: value > 0 ? "difference__more" : "difference__less", x: Math.min(span - width, x(step) - width / 2), y: Math.min(dy(0), dy(value)), width, height: Math.abs(dy(value) - dy(0)) })),
    partedAt === null ? null : svg("path", { class: "difference__part", d: `M${x(partedAt)} ${TOP}V${BOTTOM}` }), cursor);
  readable(picture);
  picture.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const box = picture.getBoundingClientRect();
    go(linear([LEFT, span - 8], [0, last])((event.clientX - box.left) * span / box.width));
  });
  const every = Math.max(1, Math.ceil(last / 20));
  const rows = rest.filter(([step]) => step % every === 0).map(([step, value]) => [step, ...both.map((places) => placeAt(places, step)?.value ?? 0), value]);
  replace(place, h("div", { class: "card__head" }, h("h2", {}, unit ? `${unit} of both` : "Both"), partedAt === null ? null : h("span", { class: "quiet" }, "dashed vertical: where they diverge")), picture,
    figuresTable("Figures of both", ["step", "first", "second", "difference"], rows));
  const chart = { key, cursor, x };
  drawn.set(place, chart);
  return chart;
}

/** A figure that restarts begins a new line. @param {Place[]} places */
function runs(places) {
  /** @type {Place[][]} */
  const found = [];
  for (const place of places.filter(({ value }) => value !== null)) {
    const run = found.at(-1);
    if (!run || (place.value ?? 0) < (run.at(-1)?.value ?? 0)) found.push([place]);
    else run.push(place);
  }
  return found;
}

/** @param {number} value */
const signed = (value) => (value > 0 ? `+${round(value)}` : String(round(value)));
