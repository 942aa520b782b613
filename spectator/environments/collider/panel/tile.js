// @ts-check
// A campaign from afar: what is left to spend as rings, then the spectrum in focus above its scan for a peak.

import { argument, channelMark } from "./words.js";

const SIZE = 160;
const LEFT = 8;
const WIDTH = SIZE - 2 * LEFT;
/** Baselines of the spectrum and of 0 sigma of the scan. */
const BASE = 108;
const ZERO = 144;
/** Sigma from which a discovery may be claimed. */
const DISCOVERY = 5;
const COLOURS = ["var(--willow)", "var(--sky)", "var(--grass)"];
const RISE_MS = 900;

export default {
  /** A call in words. @param {string} tool @param {Record<string, any>} given @returns {[string, string][]} */
  call: (tool, given) => Object.entries(given).map(([name, value]) => argument(name, value)),
  /** @param {any} ctx */
  mount({ ui: { svg, replace }, charts: { linePath, round } }) {
    const element = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, "stroke-linecap": "round" });
    const x = (/** @type {number} */ percent) => LEFT + (WIDTH * percent) / 100;
    const line = (/** @type {string} */ d, /** @type {Record<string, any>} */ look) => svg("path", { d, fill: "none", ...look });
    let before = "";

    /** What is left of money, luminosity and days: three rings, as the machine's own. @param {number[]} left */
    const rings = (left) => left.flatMap((percent, index) => {
      const r = 64 - 15 * index;
      const ring = { cx: SIZE / 2, cy: SIZE / 2, r, fill: "none", "stroke-width": 9 };
      return [svg("circle", { ...ring, stroke: "var(--line)" }),
        svg("circle", { ...ring, stroke: COLOURS[index], pathLength: 100, "stroke-dasharray": `${Math.max(0, percent - 3)} 100`, transform: `rotate(-90 ${SIZE / 2} ${SIZE / 2})` })];
    });

    /** @param {number[]} bins */
    function spectrum(bins) {
      const step = WIDTH / bins.length;
      const tops = bins.map((height, index) => `V${round(BASE - 0.9 * height)}H${round(LEFT + (index + 1) * step)}`).join("");
      return svg("path", { d: `M${LEFT} ${BASE}${tops}V${BASE}z`, fill: "color-mix(in oklab, var(--sky) 45%, var(--card))", stroke: "var(--sky)", "stroke-width": 1 });
    }

    /** What may not be seen yet. @param {number[]} span */
    function veil([from, to]) {
      const [low, high] = [x(Math.max(0, from)), x(Math.min(100, to))];
      const stripes = Array.from({ length: Math.floor((high - low) / 7) + 1 }, (_, index) => `M${round(low + 7 * index)} ${BASE}V14`).join("");
      return svg("g", {}, svg("rect", { x: low, y: 12, width: high - low, height: BASE - 12, fill: "var(--card)", opacity: 0.78 }), line(stripes, { stroke: "var(--edge)", "stroke-width": 1.4 }));
    }

    /** @param {{span: number[], z: number[]}} scan */
    function drawScan({ span: [from, to], z }) {
      const per = 30 / Math.max(DISCOVERY + 1, Math.max(...z) / 10);
      const points = z.map((tenths, index) => [x(from + ((to - from) * index) / Math.max(1, z.length - 1)), ZERO - per * Math.max(-2, tenths / 10)]);
      return [line(`M${LEFT} ${round(ZERO - per * DISCOVERY)}h${WIDTH}`, { stroke: "var(--willow)", "stroke-width": 1, "stroke-dasharray": "2 4" }), line(linePath(points), { stroke: "var(--ink)", "stroke-width": 2, "stroke-linejoin": "round" })];
    }

    /** @param {{at: number, sigma: number}} peak */
    const drawPeak = ({ at, sigma }) => [line(`M${round(x(at))} ${BASE}V16`, { stroke: "var(--willow)", "stroke-width": 2 }),
      svg("text", { x: SIZE - LEFT, y: 28, "text-anchor": "end", "font-size": 26, "font-weight": 800, fill: sigma >= DISCOVERY ? "var(--willow)" : "var(--ink)" }, `${sigma}σ`)];

    return {
      element,
      /** @param {any} picture @param {boolean} moves */
      update({ left = [], channel = "", bins = null, hidden = null, scan = null, peak = null }, moves) {
        const stage = [channel, Boolean(hidden), Boolean(scan), Boolean(peak)].join();
        if (!bins) replace(element, ...rings(left));
        else {
          const name = peak ? null : svg("text", { x: SIZE - LEFT, y: 26, "text-anchor": "end", "font-size": 20, "font-weight": 700, fill: "var(--ink-2)" }, channelMark(channel));
          replace(element, spectrum(bins), hidden && veil(hidden), line(`M${LEFT} ${BASE}h${WIDTH}M${LEFT} ${ZERO}h${WIDTH}`, { stroke: "var(--edge)", "stroke-width": 1 }), ...(scan ? drawScan(scan) : []), ...(peak ? drawPeak(peak) : []), name);
        }
        if (moves && stage !== before) element.lastElementChild?.animate({ opacity: [0, 1] }, RISE_MS);
        before = stage;
      },
    };
  },
};
