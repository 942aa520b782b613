// @ts-check
// A plot with axes: lines with standard errors, or bars; values by pointer and by keyboard.

import { h, keyed, replace, setAttribute, setText, svg } from "../ui/dom.js";
import { figuresTable, linear, linePath, round, span } from "./charts.js";

/**
 * @typedef {{x: number, y: number | null, error?: number | null, said: string, row: (string | number)[]}} PlotPoint
 * @typedef {{name: string, second?: boolean, points: PlotPoint[]}} PlotLine drawn solid with round marks, the second dashed with square ones
 * @typedef {{lines: PlotLine[], bars?: boolean, counted?: boolean, x: string, y: string, head: string[], least?: number, most?: number, whole?: boolean, show: (value: number) => string, empty: string}} PlotSpec `least` and `most` are values that the y axis covers in any case, `whole` and `counted` allow only whole ticks on the y and the x axis
 */

const ROOM = { top: 22, right: 12, bottom: 36, left: 8 };
const LETTER = 6.6;

/**
 * @param {string} title @param {number} [height] in pixels
 * @returns {{element: HTMLElement, update: (spec: PlotSpec, title?: string) => void}}
 */
export function makePlot(title, height = 168) {
  const head = h("h2", {}, title);
  const read = h("p", { class: "plot__read" });
  const legend = h("p", { class: "plot__legend", hidden: true });
  const picture = svg("svg", { class: "plot", height, "aria-hidden": "true" });
  const control = h("div", { class: "plot__control", role: "slider", tabindex: "0", "aria-label": title }, picture);
  const table = h("div", { class: "unseen" });
  const empty = h("p", { class: "quiet" });
  const element = h("section", { class: "card plotted" }, head, read, legend, control, empty, table);
  /** @type {PlotSpec | null} */ let spec = null;
  /** @type {number[]} */ let places = [];
  /** The place that is read; `null` for the last, or the highest bar. @type {number | null} */ let at = null;
  let width = 0;

  const shown = () => {
    if (at !== null && places.includes(at)) return places.indexOf(at);
    const heights = spec?.bars ? spec.lines[0].points.map(({ y }) => y ?? 0) : [];
    return heights.length ? heights.indexOf(Math.max(...heights)) : places.length - 1;
  };
  /** What is read of each line: by itself the last of each, which may be at different places. */
  const reading = () => (spec?.lines ?? []).flatMap(({ name, points }) => {
    const one = at === null && !spec?.bars ? points.findLast(({ y }) => y !== null) : points.find(({ x }) => x === places[shown()]);
    return one ? [{ name, one }] : [];
  });
  const frame = () => {
    const { lines, least, most, whole, show, bars } = /** @type {PlotSpec} */ (spec);
    const every = lines.flatMap(({ points }) => points).filter(({ y }) => y !== null);
    const ends = every.flatMap(({ y, error }) => [Number(y) - (error ?? 0), Number(y) + (error ?? 0)]);
    const up = span(Math.min(...ends, least ?? Infinity), Math.max(...ends, most ?? -Infinity), height < 200 ? 3 : 5, whole);
    const left = ROOM.left + Math.max(...up.map((value) => show(value).length)) * LETTER;
    const gap = bars && places.length > 1 ? (places[1] - places[0]) / 2 : 0;
    const covered = lines.flatMap(({ points }) => points.map((one) => one.x));
    const [from, to] = [Math.min(...covered) - gap, Math.max(...covered) + gap];
    const wide = bars ? 0 : 6;
    const x = linear(from === to ? [from - 1, to + 1] : [from, to], [left + wide, width - ROOM.right - wide]);
    return { from, to, up, left, x, y: linear([up[0], up.at(-1) ?? 1], [height - ROOM.bottom, ROOM.top]) };
  };

  function draw() {
    if (!spec || !places.length || width < 80) return;
    const { lines, bars, show } = spec;
    const { from, to, up, left, x, y } = frame();
    const [right, bottom] = [width - ROOM.right, height - ROOM.bottom];
    const apart = !bars && spec.counted && places.every((place, index) => index === 0 || x(place) - x(places[index - 1]) >= 36);
    const across = apart ? places : span(from, to, Math.max(2, Math.floor((right - left) / 60)), spec.counted).filter((value) => value >= from && value <= to);
    const wide = bars ? Math.max(1, (right - left) / places.length - 2) : 0;
    setAttribute(picture, "viewBox", `0 0 ${width} ${height}`);
    replace(picture,
      svg("text", { class: "plot__unit", x: 0, y: 11 }, spec.y),
      svg("g", { class: "plot__grid" }, ...up.flatMap((value) => [svg("path", { d: `M${left} ${round(y(value))}H${right}` }), svg("text", { x: left - 6, y: round(y(value)) + 4, "text-anchor": "end" }, show(value))])),
      svg("g", { class: "plot__across" }, ...(across.length ? across : [places[0]]).flatMap((value) => [svg("path", { d: `M${round(x(value))} ${bottom}v4` }), svg("text", { x: round(x(value)), y: bottom + 16, "text-anchor": "middle" }, tickWords(value))]),
        svg("text", { class: "plot__unit", x: right, y: height - 3, "text-anchor": "end" }, spec.x)),
      svg("path", { class: "plot__cursor" }),
      ...lines.map(({ points, second = false, name }) => (bars
        ? svg("g", { class: "plot__bars" }, ...points.map((one) => svg("rect", { x: round(x(one.x) - wide / 2), width: round(wide), y: round(y(one.y ?? 0)), height: round(Math.max(0, y(up[0]) - y(one.y ?? 0))) })))
        : drawLine(name, points, second, x, y))));
    mark();
  }

  /** Show the place that is read. */
  function mark() {
    if (!spec || !places.length) return;
    const place = places[shown()];
    const found = reading();
    const many = spec.lines.length > 1;
    replace(read, ...found.map(({ name, one }) => h("span", {}, many ? h("b", {}, h("bdi", {}, `${name} `)) : null, one.said)));
    const text = found.map(({ name, one }) => (many ? `${name}: ${one.said}` : one.said)).join("; ");
    for (const [key, value] of Object.entries({ "aria-valuemin": 1, "aria-valuemax": places.length, "aria-valuenow": shown() + 1, "aria-valuetext": text })) setAttribute(control, key, value);
    const cursor = picture.querySelector(".plot__cursor");
    if (!cursor) return;
    const { x } = frame();
    setAttribute(cursor, "d", `M${round(x(place))} ${ROOM.top}V${height - ROOM.bottom}`);
    for (const dot of picture.querySelectorAll("[data-x]")) dot.classList.toggle("plot__at", found.some(({ name, one }) => dot.dataset.line === name && dot.dataset.x === String(one.x)));
    for (const [index, bar] of [...picture.querySelectorAll(".plot__bars rect")].entries()) bar.classList.toggle("plot__at", index === shown());
  }

  /** @param {number} index */
  function go(index) {
    at = places[Math.max(0, Math.min(places.length - 1, index))] ?? null;
    mark();
  }

  control.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!places.length || !spec) return;
    const { x } = frame();
    const here = event.clientX - picture.getBoundingClientRect().left;
    go(places.reduce((best, place, index) => (Math.abs(x(place) - here) < Math.abs(x(places[best]) - here) ? index : best), 0));
  });
  control.addEventListener("pointerleave", () => { if (document.activeElement !== control) { at = null; mark(); } });
  control.addEventListener("blur", () => { at = null; mark(); });
  control.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = Math.max(1, Math.round(places.length / 10));
    const to = { ArrowLeft: shown() - 1, ArrowDown: shown() - 1, ArrowRight: shown() + 1, ArrowUp: shown() + 1, Home: 0, End: places.length - 1, PageDown: shown() - by, PageUp: shown() + by }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(to);
  });
  new ResizeObserver(() => {
    const now = Math.floor(control.clientWidth);
    if (now === width) return;
    width = now;
    draw();
  }).observe(control);

  return {
    element,
    update(next, name = title) {
      spec = next;
      places = [...new Set(next.lines.flatMap(({ points }) => points.filter(({ y }) => y !== null).map(({ x }) => x)))].sort((one, other) => one - other);
      setText(head, name);
      setAttribute(control, "aria-label", name);
      control.hidden = read.hidden = !places.length;
      empty.hidden = places.length > 0;
      setText(empty, next.empty);
      legend.hidden = next.lines.length < 2;
      keyed(legend, next.lines, (line) => line.name, (line) => h("span", {}, sample(line.second ?? false), h("bdi", {}, line.name)));
      const many = next.lines.length > 1;
      replace(table, places.length ? figuresTable(name, [...(many ? ["run"] : []), ...next.head], next.lines.flatMap((line) => line.points.map((one) => (many ? [line.name, ...one.row] : one.row)))) : null);
      draw();
    },
  };
}

/** @param {string} name @param {PlotPoint[]} points @param {boolean} second @param {(value: number) => number} x @param {(value: number) => number} y */
function drawLine(name, points, second, x, y) {
  /** @type {[number, number][][]} */ const runs = [[]];
  for (const { x: place, y: value } of points) if (value === null) runs.push([]); else runs.at(-1)?.push([x(place), y(value)]);
  const known = points.filter((one) => one.y !== null);
  return svg("g", { class: `plot__line plot__line--${second ? 2 : 1}` },
    svg("path", { class: "plot__error", d: known.filter(({ error }) => error).map((one) => `M${round(x(one.x))} ${round(y(Number(one.y) - Number(one.error)))}V${round(y(Number(one.y) + Number(one.error)))}`).join("") }),
    ...runs.filter((run) => run.length > 1).map((run) => svg("path", { d: linePath(run) })),
    ...known.map((one) => dot(second, x(one.x), y(Number(one.y)), { "data-x": one.x, "data-line": name })));
}

/** @param {boolean} second @param {number} x @param {number} y @param {Record<string, unknown>} [of] */
const dot = (second, x, y, of = {}) => (second ? svg("rect", { x: round(x - 3), y: round(y - 3), width: 6, height: 6, ...of }) : svg("circle", { cx: round(x), cy: round(y), r: 3, ...of }));

/** @param {boolean} second */
const sample = (second) => svg("svg", { class: `plot__sample plot__line plot__line--${second ? 2 : 1}`, viewBox: "0 0 34 12", "aria-hidden": "true" }, svg("path", { d: "M1 6H33" }), dot(second, 17, 6));

/** @param {number} value */
const tickWords = (value) => (Math.abs(value) >= 10_000 ? `${round(value / 1000)}k` : String(round(value))).replace("-", "−");
