// @ts-check
// The small charts of a run: distributions, and the curve of rewards.

import { figuresTable, linear, linePath, round } from "../charts/charts.js";
import { h, svg } from "./dom.js";
import { figure, percent } from "./run_words.js";

const WIDTH = 300;
const HEIGHT = 100;

/** @param {string} title @param {{least: number, most: number, counts: number[], whole?: boolean} | null | undefined} data @param {string} meaning */
export function histogram(title, data, meaning) {
  if (!data) return card(title, h("p", { class: "quiet" }, "No episode has finished yet."));
  const { least, most, counts } = data;
  const top = Math.max(1, ...counts);
  const wide = WIDTH / counts.length;
  const edge = (/** @type {number} */ index) => (data.whole ? least + index : least + ((most - least) * index) / counts.length);
  return card(title,
    svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}, from ${figure(least)} to ${figure(most)}` },
      ...counts.map((count, index) => svg("rect", { x: round(index * wide + 1), width: round(Math.max(1, wide - 2)), y: round(HEIGHT - (count / top) * HEIGHT), height: round((count / top) * HEIGHT) }, svg("title", {}, `${count} ${meaning} ${figure(edge(index))}${data.whole ? "" : ` to ${figure(edge(index + 1))}`}`)))),
    h("p", { class: "plot__ends", "aria-hidden": "true" }, h("span", {}, figure(least)), h("span", {}, `most: ${top}`), h("span", {}, figure(most))),
    figuresTable(title, ["from", "episodes"], counts.map((count, index) => [figure(edge(index)), count])));
}

/** @param {{mean: number, error: number | null, count: number, own_share: number | null}[]} stretches */
export function curve(stretches) {
  const means = stretches.map((one) => one.mean);
  const title = "Mean reward as episodes end";
  if (!means.length) return card(title, h("p", { class: "quiet" }, "No reward yet."));
  const [low, high] = [Math.min(0, ...means), Math.max(0.001, ...means)];
  const x = linear([0, Math.max(1, means.length - 1)], [0, WIDTH]);
  const y = linear([low, high], [HEIGHT - 2, 2]);
  return card(title,
    svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${figure(means[0])} at first, ${figure(means.at(-1))} at last` },
      svg("path", { class: "plot__zero", d: `M0 ${round(y(0))}H${WIDTH}` }), svg("path", { d: linePath((means.length > 1 ? means : [means[0], means[0]]).map((mean, index) => [x(index), y(mean)])) })),
    h("p", { class: "plot__ends", "aria-hidden": "true" }, h("span", {}, `first ${figure(means[0])}`), h("span", {}, `highest ${figure(Math.max(...means))}`), h("span", {}, `last ${figure(means.at(-1))}`)),
    figuresTable(title, ["stretch", "mean", "standard error", "verdicts", "own share"], stretches.map((one, index) => [index + 1, figure(one.mean), figure(one.error), one.count, percent(one.own_share)])));
}

/** @param {string} title @param {...Node} parts */
const card = (title, ...parts) => h("section", { class: "card" }, h("h2", {}, title), ...parts);
