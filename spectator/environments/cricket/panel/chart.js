// @ts-check
// The runs over by over: as bars, cumulatively beside par, and by partnership.

import { parWords } from "./par.js";
import { momentNames, oversOf } from "./words.js";

const WIDTH = 460;
const HEIGHT = 250;
const LEFT = 30;
const BASE = HEIGHT - 24;

/** @param {any} ctx */
export function mountChart({ ui, charts }) {
  const { h, svg, replace, setText, clip, plain } = ui;
  let view = "bars";
  /** @type {any} */ let world = {};
  /** @type {unknown[]} */ let drawn = [NaN];
  const drawing = charts.readable(svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Runs over by over; the figures follow as a table" }));
  const figures = h("div");
  const against = h("p", { class: "chart__par" });
  const legend = h("p", { class: "chart__legend" });
  const chips = [["bars", "Manhattan"], ["worm", "Worm"], ["stands", "Stands"]].map(([name, label]) =>
    h("button", { class: "chip", type: "button", "aria-pressed": String(name === view), data: { view: name }, on: { click: () => choose(name) } }, label));
  const element = h("section", { class: "card chart", "aria-label": "Over by over" },
    h("header", { class: "card__head" }, h("h2", {}, "Over by over"), h("span", { class: "tabs" }, ...chips)), drawing, legend, against, figures);

  /** @param {string} name */
  function choose(name) {
    view = name;
    for (const chip of chips) chip.setAttribute("aria-pressed", String(chip.dataset.view === name));
    draw();
  }

  async function draw() {
    setText(against, parWords(world));
    const asked = view;
    const later = view === "worm" ? import("./worm.js") : view === "stands" ? import("./stands.js") : null;
    const found = /** @type {any} */ (later && await later.catch(() => null));
    if (asked !== view) return;
    if (later && !found) return setText(legend, "This could not be loaded; choose it again.");
    if (view === "stands") {
      const stands = found.drawStands(world, ui, charts);
      replace(drawing, ...stands.bars);
      replace(legend, h("span", {}, stands.legend));
      return replace(figures, stands.figures);
    }
    const all = inningsOf(world);
    const overs = Math.max(world.format?.overs ?? 5, ...all.map((one) => one.overs.length));
    const x = charts.linear([0, overs], [LEFT, WIDTH - 6]);
    const marks = charts.ticks(Math.max(6, found ? found.highest(world, all) : Math.max(0, ...all.flatMap((one) => one.overs.map((over) => over.runs)))));
    const y = charts.linear([0, marks.at(-1)], [BASE, 8]);
    const worm = found?.drawWorm(world, all, { svg, charts, x, y, cell, goTo });
    replace(drawing, charts.grid(marks, y, { left: LEFT, right: WIDTH - 6 }), axis(overs, x), ...(worm?.marks ?? all.map((one, index) => bars(one, index, all.length, x, y))));
    replace(legend, ...all.map((one) => h("span", { class: `chart__key chart__key--${one.tone}` }, h("bdi", {}, clip(plain(one.name), 30)))), h("span", { class: "chart__key chart__key--wicket" }, "wicket"),
      worm?.key ? h("span", { class: "chart__key chart__key--par" }, worm.key) : null);
    replace(figures, charts.figuresTable("Runs and wickets by over", ["Over", ...all.map((one) => one.name)],
      Array.from({ length: overs }, (_, index) => [index + 1, ...all.map((one) => cell(one.overs[index]))])));
  }

  /** @param {number} overs @param {(value: number) => number} x */
  function axis(overs, x) {
    const every = Math.ceil(overs / 10);
    return svg("g", { class: "chart__axis", "aria-hidden": "true" }, svg("path", { d: `M${LEFT} ${BASE + 0.5}H${WIDTH - 6}` }),
      ...Array.from({ length: overs }, (_, index) => index + 1).filter((over) => over === 1 || over % every === 0).map((over) => svg("text", { x: x(over - 0.5), y: HEIGHT - 6, "text-anchor": "middle" }, over)));
  }

  /** @param {any} one @param {number} index @param {number} count @param {(value: number) => number} x @param {(value: number) => number} y */
  function bars(one, index, count, x, y) {
    const wide = ((x(1) - x(0)) * 0.78) / Math.max(2, count);
    return svg("g", { class: `chart__bars chart__bars--${one.tone}` }, ...one.overs.flatMap((/** @type {any} */ over) => {
      const left = x(over.over - 1) + (x(1) - x(0)) * 0.11 + index * wide;
      return [svg("rect", { x: left, y: y(over.runs), width: Math.max(1, wide - 1), height: Math.max(0.5, BASE - y(over.runs)), rx: 1.5, class: over.unfinished ? "chart__bar--open" : null, data: goTo(one, over) }, svg("title", {}, `Over ${over.over}: ${cell(over)}`)),
        ...Array.from({ length: over.wickets }, (_, place) => svg("circle", { class: "chart__wicket", cx: left + wide / 2, cy: y(over.runs) - 6 - 8 * place, r: 3 }))];
    }));
  }

  return {
    element,
    /** @param {any} next */
    update(next) {
      const seen = [next.scorecards, next.score, next.target, next.innings];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      world = next;
      draw();
    },
  };
}

/** The innings to draw: the two of the match, or the two of the super over that is on. @param {any} world */
function inningsOf(world) {
  const numbers = Object.keys(world.scorecards ?? {}).map(Number).sort((a, b) => a - b);
  const pair = numbers.slice(0, 2);
  return pair.map((number) => {
    const card = world.scorecards[number];
    const now = number === world.innings && !card.closed ? world.score?.[card.side] : card.total ?? null;
    return { number, name: card.name ?? world.teams?.[card.side]?.name ?? card.side, tone: number === Math.min(world.innings ?? 1, 2) ? "now" : "then", overs: oversOf(card, now), balls: now?.balls ?? 0 };
  });
}

/** Where a click on an over leads. @param {any} one its innings @param {any} over @returns {Record<string, string>} */
const goTo = (one, over) => (over.unfinished ? {} : { moment: momentNames.overEnd(one.number, over.over) });

/** @param {any} over */
const cell = (over) => (over ? `${over.runs}${over.wickets ? ` for ${over.wickets}` : ""}` : "–");
