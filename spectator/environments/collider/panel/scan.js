// @ts-check
// The local p-value by mass, with the lines that a discovery must pass before and after the look-elsewhere effect.

import { roundTicks } from "./histogram.js";
import { channelMark, figure, localFor, log10P } from "./words.js";

const WIDTH = 400;
const HEIGHT = 260;
const LEFT = 42;
const RIGHT = WIDTH - 34;
const TOP = 12;
const BASE = HEIGHT - 34;
/** Least distance of two labels. */
const LABEL = 13;

/** @param {any} ctx */
export function mountScan({ ui: { h, svg, replace, setText }, charts }) {
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Local p-value by mass; the figures follow as a table" });
  const legend = h("p", { class: "scan__legend" });
  const words = h("p", { class: "scan__words" });
  const figures = h("div");
  const element = h("section", { class: "card scan", "aria-label": "Local p-value" }, h("header", { class: "card__head" }, h("h2", {}, "Local p-value"), legend), drawing, words, figures);
  /** @type {unknown} */ let drawn = NaN;

  function empty() {
    replace(drawing, svg("path", { class: "spectrum__axis", d: `M${LEFT} ${TOP}V${BASE}H${RIGHT}` }), svg("text", { class: "spectrum__empty", x: (LEFT + RIGHT) / 2, y: (TOP + BASE) / 2, "text-anchor": "middle" }, "No scan yet"));
    replace(legend);
    setText(words, "After unblinding, every mass in the window is tested against the background alone.");
    replace(figures);
  }

  /** @param {[string, any][]} scans @param {any} significance @param {any} looks */
  function draw(scans, significance, looks) {
    const masses = scans.flatMap(([, scan]) => scan.masses_gev);
    const deepest = Math.max(5.4, ...scans.map(([, scan]) => scan.best_z)) + 0.4;
    const x = charts.linear([Math.min(...masses), Math.max(...masses)], [LEFT, RIGHT]);
    const y = charts.linear([log10P(0), log10P(deepest)], [TOP, BASE]);
    const needed = significance ? [3, 5].map((z) => [z, localFor(z, significance.upcrossings, trialsOf(significance))]) : [];
    const sigmas = apart(Array.from({ length: Math.floor(deepest) }, (_, index) => Math.floor(deepest) - index), (z) => y(log10P(z)));
    replace(drawing, svg("path", { class: "spectrum__axis", d: `M${LEFT} ${TOP}V${BASE}H${RIGHT}` }),
      svg("g", { class: "chart__grid", "aria-hidden": "true" }, ...sigmas.flatMap((z) => [svg("path", { d: `M${LEFT} ${charts.round(y(log10P(z)))}H${RIGHT}` }), svg("text", { x: RIGHT + 6, y: charts.round(y(log10P(z))) + 4 }, `${z} σ`)])),
      svg("g", { class: "chart__axis", "aria-hidden": "true" }, ...roundTicks(Math.min(...masses), Math.max(...masses), 5).map((tick) => svg("text", { x: charts.round(x(tick)), y: HEIGHT - 14, "text-anchor": "middle" }, figure(tick, 5))), svg("text", { x: RIGHT, y: HEIGHT - 1, "text-anchor": "end" }, "GeV")),
      ...powers(y, deepest), ...needed.filter(([, z]) => z <= deepest).map(([global, z]) => svg("g", { class: "scan__needed" }, svg("path", { d: `M${LEFT} ${charts.round(y(log10P(z)))}H${RIGHT}` }), svg("text", { x: LEFT + 6, y: charts.round(y(log10P(z))) - 5 }, `${global} σ global`))),
      ...scans.map(([, scan], index) => svg("path", { class: `scan__line scan__line--${index % 3}`, d: charts.linePath(scan.masses_gev.map((/** @type {number} */ mass, /** @type {number} */ place) => [x(mass), y(log10P(Math.max(0, scan.z[place])))])) })),
      ...scans.map(([, scan]) => svg("circle", { class: "scan__best", cx: charts.round(x(scan.best_mass_gev)), cy: charts.round(y(log10P(Math.max(0, scan.best_z)))), r: 4 })));
    replace(legend, ...scans.map(([name], index) => h("span", { class: `scan__key scan__key--${index % 3}` }, channelMark(name))));
    replace(words, ...said(scans, significance, needed));
    replace(figures, account(looks), charts.figuresTable("Largest excesses", ["Channel", "GeV", "sigma, local", "events"], scans.flatMap(([name, scan]) => scan.candidates.map((/** @type {any} */ one) => [channelMark(name), figure(one.mass_gev, 5), figure(one.z_local, 2), figure(one.signal)]))));
  }

  /** As many of `values` as stand far enough apart to be read, from the first on. @param {number[]} values @param {(value: number) => number} y */
  function apart(values, y) {
    /** @type {number[]} */ const kept = [];
    for (const value of values) if (kept.every((other) => Math.abs(y(other) - y(value)) >= LABEL)) kept.push(value);
    return kept;
  }

  /** Powers of ten at the left, about eight of them. @param {(value: number) => number} y @param {number} deepest sigma at the bottom */
  function powers(y, deepest) {
    const step = Math.max(2, Math.ceil(-log10P(deepest) / 8));
    return Array.from({ length: 8 }, (_, index) => -step * (index + 1)).filter((power) => y(power) < BASE)
      .map((power) => svg("text", { class: "scan__power", x: LEFT - 5, y: charts.round(y(power)) + 4, "text-anchor": "end" }, `1e−${-power}`));
  }

  /** @param {[string, any][]} scans @param {any} significance @param {number[][]} needed */
  function said(scans, significance, needed) {
    const best = scans.map(([name, scan]) => h("span", {}, `${channelMark(name)}: `, h("b", {}, `${figure(scan.best_z, 2)} σ`), ` local at ${figure(scan.best_mass_gev, 5)} GeV${scan.shape_ok ? "" : ", but the background fit is poor there"}. `));
    if (!significance) return [...best, h("span", { class: "quiet" }, "The look-elsewhere effect has not been estimated yet.")];
    return [...best, h("span", { class: "quiet" }, `Look-elsewhere effect: ${figure(significance.upcrossings, 2)} upcrossings expected${trialsOf(significance) > 1 ? `, and each p-value counts ${trialsOf(significance)} times for the looks taken` : ""}${significance.background_fits === false ? "; no background describes the data" : ""}, so 5 σ global needs ${figure(needed[1][1], 2)} σ local.`)];
  }

  /** The looks taken, each with how many times its p-values count. @param {any} looks */
  function account(looks) {
    const rows = Object.entries(looks ?? {}).sort(([a], [b]) => Number(a) - Number(b));
    return rows.length ? h("table", { class: "books__table" }, h("caption", {}, "Account of looks"), h("thead", {}, h("tr", {}, ...["look", "at", "a p-value counts"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map(([number, look]) => h("tr", {}, h("th", { scope: "row" }, number), h("td", {}, look.opened), h("td", {}, `${figure(look.trials)} times`))))) : null;
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      if (drawn === world.channels) return;
      drawn = world.channels;
      const scans = /** @type {[string, any][]} */ (Object.entries(world.channels ?? {}).filter(([, channel]) => channel.scan).map(([name, channel]) => [name, channel.scan]));
      if (!scans.length) return empty();
      const found = Object.values(world.channels).map((/** @type {any} */ one) => one.significance).filter(Boolean).sort((a, b) => b.z_global - a.z_global)[0];
      draw(scans, found, world.looks);
    },
  };
}

/** How many times a p-value counts for the looks taken. @param {any} significance */
const trialsOf = ({ trials, channels_searched: channels }) => trials ?? channels ?? 1;
