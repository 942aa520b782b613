// @ts-check
// Upper limits by mass in fb: observed, and expected without a signal with its bands of one and two sigma.

import { roundTicks } from "./histogram.js";
import { channelMark, channelName, figure } from "./words.js";

const WIDTH = 720;
const HEIGHT = 300;
const LEFT = 94;
const RIGHT = WIDTH - 10;
const TOP = 10;
const BASE = HEIGHT - 36;

/** @param {any} ctx */
export function mountLimits({ ui: { h, svg, replace, setText }, charts }) {
  const title = h("h2", {}, "Upper limits");
  const chips = h("span", { class: "tabs" });
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Upper limits by mass; the figures follow as a table" });
  const words = h("p", { class: "scan__words" });
  const figures = h("div");
  const element = h("section", { class: "card limits", "aria-label": "Upper limits", hidden: true }, h("header", { class: "card__head" }, title, chips), drawing, words, figures);
  /** @type {any} */ let world = {};
  /** @type {string | null} */ let chosen = null;
  /** @type {unknown} */ let drawn = null;

  function show() {
    const channels = Object.keys(world.channels ?? {}).filter((name) => world.channels[name].limit?.curve);
    element.hidden = !channels.length;
    const name = channels.find((one) => one === chosen) ?? channels.find((one) => one === world.focus) ?? channels.at(-1);
    if (name === undefined) return;
    replace(chips, ...(channels.length > 1 ? channels.map((one) => h("button", { class: "chip", type: "button", "aria-pressed": String(one === name), "aria-label": channelName(one), on: { click: () => { chosen = one; show(); } } }, channelMark(one))) : []));
    if (drawn === world.channels[name].limit) return;
    drawn = world.channels[name].limit;
    draw(name, world.channels[name].limit);
  }

  /** @param {string} name @param {any} limit */
  function draw(name, limit) {
    const { masses_gev: masses, observed_fb: observed, expected_fb: expected, band_fb: band } = limit.curve;
    const all = [...observed, ...expected, ...band.flat()].filter((value) => value > 0);
    const [low, high] = [Math.log10(Math.min(...all)) - 0.08, Math.log10(Math.max(...all)) + 0.08];
    const x = charts.linear([masses[0], masses.at(-1)], [LEFT, RIGHT]);
    const y = (/** @type {number} */ value) => BASE - ((Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)) * (BASE - TOP);
    const points = (/** @type {number[]} */ values) => values.map((value, index) => /** @type {[number, number]} */ ([x(masses[index]), y(value)]));
    const between = (/** @type {number} */ from, /** @type {number} */ to) => `${charts.linePath([...points(band.map((/** @type {number[]} */ one) => one[to])), ...points(band.map((/** @type {number[]} */ one) => one[from])).reverse()])}Z`;
    const ticks = high - low > 1.5 ? Array.from({ length: Math.floor(high) - Math.ceil(low) + 1 }, (_, index) => 10 ** (Math.ceil(low) + index)) : roundTicks(10 ** low, 10 ** high, 5).filter((tick) => tick > 0);
    replace(drawing, svg("path", { class: "limits__band limits__band--2", d: between(0, 3) }), svg("path", { class: "limits__band", d: between(1, 2) }),
      svg("g", { class: "chart__grid", "aria-hidden": "true" }, ...ticks.flatMap((tick) => [svg("path", { d: `M${LEFT} ${charts.round(y(tick))}H${RIGHT}` }), svg("text", { x: LEFT - 6, y: charts.round(y(tick)) + 4, "text-anchor": "end" }, figure(tick))])),
      svg("g", { class: "chart__axis", "aria-hidden": "true" }, ...roundTicks(masses[0], masses.at(-1), 6).map((tick) => svg("text", { x: charts.round(x(tick)), y: HEIGHT - 18, "text-anchor": "middle" }, figure(tick, 5))), svg("text", { x: RIGHT, y: HEIGHT - 3, "text-anchor": "end" }, `m(${channelMark(name)}), GeV`)),
      svg("text", { class: "spectrum__title", transform: `translate(13 ${(TOP + BASE) / 2}) rotate(-90)`, "text-anchor": "middle" }, "σ × B at 13 TeV, fb"),
      svg("path", { class: "spectrum__axis", d: `M${LEFT} ${TOP}V${BASE}H${RIGHT}` }),
      svg("path", { class: "limits__expected", d: charts.linePath(points(expected)) }), svg("path", { class: "limits__observed", d: charts.linePath(points(observed)) }),
      ...points(observed).map(([cx, cy]) => svg("circle", { class: "limits__point", cx: charts.round(cx), cy: charts.round(cy), r: 2.4 })));
    setText(title, `Upper limits, 95 % CL, ${channelName(name)}`);
    setText(words, `Solid: observed. Dashed: expected without a signal, with bands of one and two sigma. At ${figure(limit.mass_gev, 5)} GeV: ${figure(limit.rate_limit_fb)} fb, or ${figure(limit.signal_limit)} events.`);
    replace(figures, charts.figuresTable(`Upper limits in fb, ${channelName(name)}`, ["GeV", "observed", "expected", "−2 σ", "−1 σ", "+1 σ", "+2 σ"], masses.map((/** @type {number} */ mass, /** @type {number} */ index) => [mass, observed[index], expected[index], ...band[index]].map((value, place) => figure(value, place ? 3 : 5)))));
  }

  return {
    element,
    /** @param {any} next */
    update(next) {
      world = next;
      show();
    },
  };
}
