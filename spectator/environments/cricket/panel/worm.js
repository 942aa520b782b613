// @ts-check
// The runs of both innings as they add up, beside par; fetched on first use.

import { parIsReal, parOf } from "./par.js";

/** The most runs that are drawn. @param {any} world @param {any[]} all innings */
export const highest = (world, all) => Math.max(world.target ?? 0, parOf(world)[world.format?.overs]?.median ?? 0, ...all.flatMap((one) => one.overs.map((/** @type {any} */ over) => over.score)), ...Object.values(world.real?.lines ?? {}).map((line) => line.at(-1)?.[0] ?? 0));

/**
 * Par behind, the lines of the innings, and what is chased; what they are called beside the innings' names.
 * @param {any} world @param {any[]} all innings @param {{svg: any, charts: any, x: (value: number) => number, y: (value: number) => number, cell: (over: any) => string, goTo: (one: any, over: any) => Record<string, string>}} on what they are drawn with
 * @returns {{marks: (SVGElement | null)[], key: string}}
 */
export function drawWorm(world, all, { svg, charts, x, y, cell, goTo }) {
  const par = Object.entries(parOf(world)).map(([over, line]) => ({ over: Number(over), ...line })).sort((a, b) => a.over - b.over);
  const edge = (/** @type {"low" | "high" | "median"} */ name) => [[x(0), y(0)], ...par.map((line) => [x(line.over), Math.max(4, y(line[name]))])];
  const band = () => svg("g", { class: "chart__band", "aria-hidden": "true" },
    svg("path", { class: "chart__band-area", d: `${charts.linePath([...edge("high"), ...edge("low").reverse()])}Z` }), svg("path", { class: "chart__band-middle", d: charts.linePath(edge("median")) }));
  const line = (/** @type {any} */ one) => {
    const end = (/** @type {any} */ over) => [over.unfinished ? x(one.balls / 6) : x(over.over), y(over.score)];
    return svg("g", {}, svg("path", { class: `chart__line chart__line--${one.tone}`, d: charts.linePath([[x(0), y(0)], ...one.overs.map(end)]) }),
      ...one.overs.filter((/** @type {any} */ over) => over.wickets).map((/** @type {any} */ over) => svg("circle", { class: "chart__wicket", cx: end(over)[0], cy: end(over)[1], r: 3.4, data: goTo(one, over) }, svg("title", {}, `Over ${over.over}: ${cell(over)}`))));
  };
  const real = Object.entries(world.real?.lines ?? {}).map(([number, points]) => svg("path", { class: `chart__line chart__line--${all.find((one) => one.number === Number(number))?.tone ?? "then"} chart__line--real`, d: charts.linePath([[x(0), y(0)], ...points.map((/** @type {number[]} */ [runs], /** @type {number} */ index) => [x(index + 1), y(runs)])]) }));
  const overs = Math.max(...all.map((one) => one.overs.length), world.format?.overs ?? 5);
  const target = world.target !== undefined && !world.super_over ? svg("path", { class: "chart__target", d: `M${x(0)} ${y(world.target)}H${x(overs)}` }) : null;
  return { marks: [par.length ? band() : null, ...real, ...all.map(line), target], key: [par.length ? `${parIsReal(world) ? "real innings" : "average sides"}: median and middle 80 %` : "", real.length ? "dotted: this match as it really went" : ""].filter(Boolean).join("; ") };
}
