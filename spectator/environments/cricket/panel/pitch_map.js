// @ts-check
// The pitch map: where every ball of an innings pitched and what it brought, by bowler and batter.

import { inningsName, markKind, markWords, momentNames, surname, validBalls } from "./words.js";

/** Lengths from the bowler's end down and lines from the leg side across, as on paper: place in the record's list, name, size. */
export const LENGTHS = /** @type {[number, string, number][]} */ ([[5, "short", 62], [4, "back of a length", 66], [3, "good", 74], [2, "full", 58], [1, "yorker", 40], [0, "full toss", 32]]);
export const LINES = /** @type {[number, string, number][]} */ ([[3, "leg", 66], [2, "stumps", 70], [1, "outside off", 98], [0, "wide outside off", 66]]);
const LEFT = 78;
const TOP = 18;
const WIDTH = LEFT + LINES.reduce((sum, [, , size]) => sum + size, 0);
const HEIGHT = TOP + LENGTHS.reduce((sum, [, , size]) => sum + size, 0) + 16;
/** What a ball brought, with its name in the key; the last ones lie on top. */
const OUTCOMES = /** @type {const} */ ({ dot: "dot", run: "runs and extras", boundary: "boundary", wicket: "wicket" });

/** @typedef {{over: number, place: number, at: string, bowler: string, batter: string, length: number, line: number, mark: string, outcome: keyof typeof OUTCOMES, runs: number}} Pitched */

/** @param {Record<string, any[]> | undefined} balls of an innings, as the state has them @param {string} [by] number of a bowler @param {string} [to] number of a batter @returns {Pitched[]} in order */
export function pitchedOf(balls, by = "", to = "") {
  const number = (/** @type {number} */ value) => String(value).padStart(2, "0");
  let [over, counted] = [0, 0];
  return Object.entries(balls ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, [bowler, batter, length, line, mark]]) => {
    const kind = markKind(mark);
    if (Number(key.slice(0, 3)) + 1 !== over) [over, counted] = [Number(key.slice(0, 3)) + 1, 0];
    const at = `${over - 1}.${counted + 1}`;
    counted += validBalls([mark]);
    return { over, place: Number(key.slice(3)), at, bowler: number(bowler), batter: number(batter), length, line, mark,
      outcome: /** @type {any} */ (kind === "extra" ? "run" : kind === "four" || kind === "six" ? "boundary" : kind), runs: Number.parseInt(mark, 10) || (kind === "extra" ? 1 : 0) };
  }).filter((ball) => (by === "" || ball.bowler === by) && (to === "" || ball.batter === to));
}

/** Where a ball is drawn: scattered over its length and line, always the same. @param {Pitched} ball @returns {[number, number]} */
export function spotOf({ over, place, length, line }) {
  const seed = 6 * over + place;
  const within = (/** @type {[number, string, number][]} */ cells, /** @type {number} */ which, /** @type {number} */ share) => {
    const index = cells.findIndex(([number]) => number === which);
    return cells.slice(0, index).reduce((sum, [, , size]) => sum + size, 0) + 7 + (cells[index][2] - 14) * (share % 1);
  };
  return [LEFT + within(LINES, line, seed * 0.7549), TOP + within(LENGTHS, length, seed * 0.5698)];
}

/** Balls, runs and wickets in a few words. @param {Pitched[]} balls */
function sumWords(balls) {
  const wickets = balls.filter(({ outcome }) => outcome === "wicket").length;
  return `${balls.length} ball${balls.length === 1 ? "" : "s"}, ${balls.reduce((sum, { runs }) => sum + runs, 0)} runs${wickets ? `, ${wickets} wicket${wickets === 1 ? "" : "s"}` : ""}`;
}

/** @param {any} place @param {any} ctx */
export function mountPitchMap(place, { ui: { h, svg, replace, keyed, setText, clip, plain, momentLink }, charts }) {
  const dots = svg("g");
  const drawing = charts.readable(svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Pitch map; the figures follow as a table" }, ...bands(), dots));
  const selects = Object.fromEntries(["innings", "bowler", "batter"].map((name) => [name, h("select", { class: "wheel__who", "aria-label": `Pitch map: ${name}`, on: { change: () => { chosen[name] = selects[name].value; picked ||= name === "innings"; draw(); } } })]));
  const sum = h("p", { class: "pitch__sum quiet" });
  const key = h("p", { class: "chart__legend" }, ...Object.entries(OUTCOMES).map(([outcome, name]) => h("span", {}, svg("svg", { class: "pitch__sign", viewBox: "-6 -6 12 12", "aria-hidden": "true" }, signOf(/** @type {"dot"} */ (outcome))), name)));
  const fell = h("p", { class: "cards__fall" });
  const figures = h("div");
  replace(place, h("p", { class: "pitch__who" }, ...Object.values(selects)), drawing, key, sum, fell, figures);
  /** @type {Record<string, string>} */ const chosen = { innings: "", bowler: "", batter: "" };
  /** Whether an innings was chosen; until then the newest one is shown. */
  let picked = false;
  /** @type {any} */ let world = {};
  /** @type {unknown[]} */ let drawn = [];

  /** The pitch: a band for every length, the lines across, creases and stumps at the batter's end. */
  function bands() {
    let [x, y] = [LEFT, TOP];
    const labels = svg("g", { class: "chart__axis" });
    const wide = WIDTH - LEFT;
    const earth = (/** @type {number} */ share) => `color-mix(in oklab, var(--willow) ${share}%, var(--card))`;
    const rows = LENGTHS.map(([, name, size], index) => {
      const middle = y + size / 2 + 4;
      y += size;
      labels.append(...name.split(/(?<=back of) /).map((words, line, all) => svg("text", { x: LEFT - 6, y: middle + 13 * line - 6.5 * (all.length - 1), "text-anchor": "end" }, words)));
      return svg("rect", { x: LEFT, y: y - size, width: wide, height: size, fill: earth(index % 2 ? 14 : 22) });
    });
    const columns = LINES.map(([, name, size], index) => {
      x += size;
      const edge = index < LINES.length - 1 ? svg("path", { d: `M${x} ${TOP}V${y}`, stroke: "var(--edge)", "stroke-dasharray": "2 3" }) : null;
      labels.append(svg("text", { x: x - size / 2, y: TOP - 6, "text-anchor": "middle" }, name === "wide outside off" ? "wide" : name));
      return edge;
    });
    const wicket = LEFT + LINES[0][2] + LINES[1][2] / 2;
    return [...rows, ...columns, labels, svg("path", { d: `M${LEFT} ${y}H${WIDTH}`, stroke: "var(--ink-2)", "stroke-width": 1.5 }),
      svg("path", { d: [-9, 0, 9].map((far) => `M${wicket + far} ${y - 2}v16`).join(""), stroke: "var(--ink)", "stroke-width": 3, "stroke-linecap": "round" })];
  }

  /** Signs differ in shape, so that colour is not needed. @param {keyof typeof OUTCOMES} outcome */
  function signOf(outcome) {
    if (outcome === "dot") return svg("circle", { r: 3.4, fill: "var(--card)", stroke: "var(--ink-2)", "stroke-width": 1.4 });
    if (outcome === "run") return svg("circle", { r: 4.2, fill: "var(--sky)", stroke: "var(--card)", "stroke-width": 0.8 });
    if (outcome === "boundary") return svg("rect", { x: -4.2, y: -4.2, width: 8.4, height: 8.4, fill: "var(--grass)", stroke: "var(--card)", "stroke-width": 0.8 });
    return svg("path", { d: "M-4-4l8 8m0-8l-8 8", stroke: "var(--cherry)", "stroke-width": 3, fill: "none" });
  }

  /** @param {Pitched} ball @param {any} card */
  function dot(ball, card) {
    const [x, y] = spotOf(ball).map(charts.round);
    return svg("g", { class: `pitch__ball pitch__ball--${ball.outcome}`, transform: `translate(${x} ${y})`, data: { moment: momentNames.ofOver(Number(chosen.innings), ball.over, ball.place) } },
      svg("title", {}, `${ball.at}, ${nameOf(card.bowling, ball.bowler)} to ${nameOf(card.batting, ball.batter)}: ${pitchWords(ball)}, ${markWords(ball.mark)}`), signOf(ball.outcome));
  }

  const pitchWords = (/** @type {Pitched} */ { length, line }) => [LENGTHS.find(([which]) => which === length)?.[1], LINES.find(([which]) => which === line)?.[1]].join(", ");
  const nameOf = (/** @type {any} */ lines, /** @type {string} */ number) => surname(plain(lines?.[number]?.name ?? ""));

  /** @param {string} name @param {string[][]} options */
  function offer(name, options) {
    if (!options.some(([value]) => value === chosen[name])) chosen[name] = options[0]?.[0] ?? "";
    keyed(selects[name], options, (/** @type {string[]} */ [value]) => `of-${value}`, (/** @type {string[]} */ [value, words]) => h("option", { value }, words),
      (/** @type {Element} */ option, /** @type {string[]} */ [, words]) => setText(option, words));
    selects[name].value = chosen[name];
  }

  function draw() {
    const innings = Object.keys(world.pitched ?? {});
    offer("innings", innings.map((number) => [number, `${inningsName(Number(number))}, ${clip(plain(world.scorecards?.[number]?.name ?? ""), 24)}`]));
    const card = world.scorecards?.[chosen.innings] ?? {};
    const balls = world.pitched?.[chosen.innings];
    const all = (/** @type {any} */ lines, /** @type {string} */ words, /** @type {"bowler" | "batter"} */ role) => {
      const there = new Set(pitchedOf(balls).map((ball) => ball[role]));
      return [["", words], ...Object.keys(lines ?? {}).filter((number) => there.has(number)).sort().map((number) => [number, clip(plain(lines[number].name), 28)])];
    };
    offer("bowler", all(card.bowling, "every bowler", "bowler"));
    offer("batter", all(card.batting, "every batter", "batter"));
    const shown = pitchedOf(balls, chosen.bowler, chosen.batter);
    const rank = Object.keys(OUTCOMES);
    replace(dots, ...shown.toSorted((a, b) => rank.indexOf(a.outcome) - rank.indexOf(b.outcome)).map((ball) => dot(ball, card)));
    setText(sum, sumWords(shown));
    const wickets = shown.filter(({ outcome }) => outcome === "wicket");
    replace(fell, wickets.length ? "Wickets: " : null, ...wickets.flatMap((ball, index) => [index ? ", " : "",
      momentLink(momentNames.ofOver(Number(chosen.innings), ball.over, ball.place), {}, `${ball.at} ${pitchWords(ball)}`)]));
    replace(figures, charts.figuresTable("Balls by length and line", ["Length", ...LINES.map(([, name]) => name)], LENGTHS.map(([length, name]) => [name,
      ...LINES.map(([line]) => sumWords(shown.filter((ball) => ball.length === length && ball.line === line)))])));
  }

  return {
    /** @param {any} now */
    update(now) {
      world = now;
      const seen = [now.pitched, now.scorecards?.[now.innings]];
      if (seen.every((value, index) => value === drawn[index])) return;
      if (!picked) chosen.innings = Object.keys(now.pitched ?? {}).at(-1) ?? "";
      drawn = seen;
      draw();
    },
  };
}
