// @ts-check
// The wagon wheel: where each scoring stroke went, by batter or for the whole side.

const SECTORS = ["fine leg", "square leg", "midwicket", "long-on", "long-off", "cover", "point", "third"];
const SECTOR = Math.PI / 4;
const REACH = { 1: 34, 2: 46, 3: 56, 4: 68, 6: 76 };
const FARTHEST = 68;

/** @param {number} angle from fine leg, towards square leg @param {number} reach @returns {[number, number]} on paper: off side right, bowler up */
export const spot = (angle, reach) => [-Math.sin(angle) * reach, Math.cos(angle) * reach];

/**
 * Strokes of one batter, or of all, as sector by sector runs and how often.
 * @param {any} wheel by batter, sector and runs @param {string} batter empty for all
 * @returns {{sector: number, runs: number, times: number}[]} the biggest last, so that they lie on top
 */
export function strokesOf(wheel, batter) {
  /** @type {Map<string, {sector: number, runs: number, times: number}>} */
  const found = new Map();
  for (const [number, sectors] of Object.entries(wheel ?? {})) {
    if (batter !== "" && number !== batter) continue;
    for (const [sector, strokes] of Object.entries(sectors)) {
      for (const [runs, times] of Object.entries(strokes)) {
        const key = `${sector} ${runs}`;
        const known = found.get(key) ?? { sector: Number(sector), runs: Number(runs), times: 0 };
        found.set(key, { ...known, times: known.times + times });
      }
    }
  }
  return [...found.values()].sort((a, b) => a.runs - b.runs || a.sector - b.sector);
}

/** Where the strokes of a sector end, side by side within it. @param {{sector: number, runs: number, times: number}[]} strokes */
export function spokes(strokes) {
  return Array.from({ length: 8 }, (_, index) => index + 1).flatMap((sector) => {
    const one = strokes.filter((stroke) => stroke.sector === sector).flatMap((stroke) => Array.from({ length: stroke.times }, () => stroke.runs));
    return one.map((runs, place) => {
      const angle = (sector - 1 + (mixed(place, one.length) + 0.5) / one.length) * SECTOR;
      return { runs, end: spot(angle, REACH[/** @type {4} */ (runs)] ?? FARTHEST) };
    });
  });
}

/** A place from 0 to `count` - 1 that puts neighbours in rank apart, so that ones and fours mix. @param {number} place @param {number} count */
function mixed(place, count) {
  const half = Math.ceil(count / 2);
  return place < half ? 2 * place : 2 * (place - half) + 1;
}

/** @param {any} place @param {any} ctx */
export function mountWheel(place, { ui: { h, svg, replace, keyed, setText, clip, plain }, charts }) {
  const lines = svg("g");
  const totals = svg("g", { class: "wheel__totals" });
  const drawing = svg("svg", { viewBox: "-96 -88 192 176", role: "img", "aria-label": "Wagon wheel; the figures follow as a table" },
    svg("circle", { class: "wheel__rope", r: FARTHEST }),
    ...Array.from({ length: 4 }, (_, index) => svg("path", { class: "wheel__cut", d: `M${spot(index * SECTOR, FARTHEST).map(charts.round).join(" ")}L${spot((index + 4) * SECTOR, FARTHEST).map(charts.round).join(" ")}` })), lines, totals);
  const who = h("select", { class: "wheel__who", "aria-label": "Whose strokes" });
  const key = h("p", { class: "chart__legend" }, ...[["run", "1 to 3"], ["four", "four"], ["six", "six"]].map(([look, words]) => h("span", { class: `wheel__key wheel__key--${look}` }, words)));
  const figures = h("div");
  replace(place, who, drawing, key, figures);
  let chosen = "";
  /** @type {unknown[]} */ let drawn = [NaN];
  /** @type {any} */ let wheel = null;
  who.addEventListener("change", () => { chosen = who.value; draw(); });

  function draw() {
    const strokes = strokesOf(wheel, chosen);
    replace(lines, ...spokes(strokes).map(({ runs, end: [x, y] }) => svg("g", { class: `wheel__stroke wheel__stroke--${look(runs)}` },
      svg("path", { d: `M0 0L${charts.round(x)} ${charts.round(y)}` }), runs >= 4 ? mark(runs, x, y) : null)));
    const sums = SECTORS.map((_, index) => strokes.filter((one) => one.sector === index + 1).reduce((sum, one) => sum + one.runs * one.times, 0));
    replace(totals, ...sums.map((sum, index) => {
      const [x, y] = spot((index + 0.5) * SECTOR, 84);
      return svg("text", { x: charts.round(x), y: charts.round(y) + 3, "text-anchor": "middle", class: sum ? null : "is-none" }, sum);
    }));
    replace(figures, charts.figuresTable("Runs by sector", ["Sector", "Runs"], SECTORS.map((sector, index) => [sector, sums[index]])));
  }

  /** Fours end in a square, sixes in a ring, so that colour is not needed. @param {number} runs @param {number} x @param {number} y */
  const mark = (runs, x, y) => (runs === 6 ? svg("circle", { cx: charts.round(x), cy: charts.round(y), r: 2.6 }) : svg("rect", { x: charts.round(x - 2), y: charts.round(y - 2), width: 4, height: 4 }));

  return {
    /** @param {any} world */
    update(world) {
      const card = world.scorecards?.[world.innings];
      wheel = world.wheel?.[world.innings];
      const seen = [wheel, world.innings, card?.batting];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const batters = Object.entries(card?.batting ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
      if (!batters.some(([number]) => number === chosen)) chosen = "";
      const options = [["", clip(plain(card?.name ?? "whole side"), 30)], ...batters.map(([number, line]) => [number, `${clip(plain(line.name), 28)} ${line.runs ?? 0}`])];
      keyed(who, options, (/** @type {string[]} */ [number]) => `of-${number}`, (/** @type {string[]} */ [number, label]) => h("option", { value: number }, label),
        (/** @type {Element} */ option, /** @type {string[]} */ [, label]) => setText(option, label));
      who.value = chosen;
      draw();
    },
  };
}

/** @param {number} runs */
const look = (runs) => (runs >= 6 ? "six" : runs === 4 ? "four" : "run");
