// @ts-check
// The decay angle: events in the peak over the background, and how the hypotheses of spin compare.

import { channelName, figure } from "./words.js";

const WIDTH = 420;
const HEIGHT = 200;
const LEFT = 36;
const BASE = HEIGHT - 24;

/** @param {any} ctx */
export function mountAngles({ ui: { h, svg, replace, setText }, charts }) {
  const title = h("h2", {}, "Decay angle");
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Events by decay angle" });
  const list = h("ul", { class: "spins" });
  const element = h("section", { class: "card angles", "aria-label": "Spin", hidden: true }, h("header", { class: "card__head" }, title), h("div", { class: "angles__body" }, drawing, list));
  /** @type {unknown} */ let drawn = null;

  /** @param {string} name @param {any} angle */
  function draw(name, angle) {
    setText(title, `Decay angle, ${channelName(name)}`);
    const x = charts.linear([angle.edges_cos[0], angle.edges_cos.at(-1)], [LEFT, WIDTH - 8]);
    const top = Math.max(4, ...angle.counts, ...angle.background) * 1.15;
    const y = charts.linear([0, top], [BASE, 8]);
    replace(drawing, charts.grid(charts.ticks(top, 3).filter((/** @type {number} */ tick) => tick <= top), y, { left: LEFT, right: WIDTH - 8 }),
      ...angle.counts.map((/** @type {number} */ count, /** @type {number} */ index) => bar(angle, index, count, x, y)),
      svg("path", { class: "spectrum__background", d: charts.linePath(angle.background.flatMap((/** @type {number} */ value, /** @type {number} */ index) => [[x(angle.edges_cos[index]), y(value)], [x(angle.edges_cos[index + 1]), y(value)]])) }),
      svg("g", { class: "chart__axis", "aria-hidden": "true" }, ...[angle.edges_cos[0], angle.edges_cos.at(-1)].map((edge) => svg("text", { x: x(edge), y: HEIGHT - 6, "text-anchor": edge === angle.edges_cos[0] ? "start" : "end" }, figure(edge, 2))), svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "|cos θ*|")));
    const order = Object.entries(angle.log_likelihood).sort((a, b) => Number(b[1]) - Number(a[1]));
    replace(list, ...order.map(([hypothesis, likelihood]) => h("li", { class: hypothesis === angle.best ? "spins__one is-on" : "spins__one" }, h("b", {}, spinWords(hypothesis)),
      hypothesis === angle.best ? " fits best" : ` 2 Δ ln L = ${figure(-2 * Number(likelihood), 2)}, ${figure(angle.expected_separation?.[hypothesis], 2)} σ expected`)),
    ...Object.entries(angle.excluded ?? {}).map(([hypothesis, why]) => h("li", { class: "spins__one quiet" }, h("b", {}, spinWords(hypothesis)), ` is excluded: ${why}`)));
  }

  /** @param {any} angle @param {number} index @param {number} count @param {(value: number) => number} x @param {(value: number) => number} y */
  function bar(angle, index, count, x, y) {
    const [from, to] = [x(angle.edges_cos[index]), x(angle.edges_cos[index + 1])];
    return svg("rect", { class: "angles__bar", x: charts.round(from + 1), y: charts.round(y(count)), width: Math.max(1, charts.round(to - from - 2)), height: Math.max(0, charts.round(BASE - y(count))) });
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      const found = Object.entries(world.channels ?? {}).filter(([, channel]) => channel.angle);
      const [name, channel] = found.find(([one]) => one === world.focus) ?? found.at(-1) ?? [];
      element.hidden = !channel;
      if (!channel || drawn === channel.angle) return;
      drawn = channel.angle;
      draw(String(name), channel.angle);
    },
  };
}

/** A hypothesis in words. @param {string} name */
export function spinWords(name) {
  const [, spin, rest = ""] = /^spin(\d)_?(.*)$/.exec(name) ?? ["", name];
  return rest ? `spin ${spin} (${rest.replaceAll("_", " → ")})` : `spin ${spin}`;
}
