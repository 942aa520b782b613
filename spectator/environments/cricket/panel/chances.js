// @ts-check
// The chance to win: now, as it went, and the balls that moved it most.

import { EQUAL } from "./par.js";
import { explained, whyWords } from "./why.js";
import { inningsName, markName, momentNames } from "./words.js";

const WIDTH = 420;
const HEIGHT = 140;
const TURNS = 3;
/** Least change, of 1, that is named. */
const LEAST = 0.04;
/** Standard errors that a change must exceed to be named. */
const SURE = 3;

/** @param {any} ctx */
export function mountChances({ ui: { h, svg, setText, replace, clip, plain, momentLink }, charts, notes, whole }) {
  const sides = { home: side(), away: side() };
  const share = svg("rect", { class: "chances__share", x: 0, y: 0, width: 50, height: 8 });
  const bar = svg("svg", { class: "chances__bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "chances__rest", x: 0, y: 0, width: 100, height: 8 }), share);
  const drawing = charts.readable(svg("svg", { class: "chances__line", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Chance to win, ball by ball; the largest swings follow in words" }));
  const futures = h("span", { class: "quiet" });
  const turns = h("ol", { class: "chances__turns" });
  const range = h("p", { class: "chances__range quiet" });
  const why = h("p", { class: "chances__why" });
  const every = h("ol", { class: "chances__every" });
  const everyTitle = h("summary");
  const everyBox = h("details", { hidden: true, on: { toggle: whole } }, everyTitle, every);
  const now = h("div", { class: "chances__now" }, sides.home.value, sides.home.name, bar, sides.away.name, sides.away.value);
  const element = h("section", { class: "card chances", "aria-label": "Win probability" },
    h("header", { class: "card__head" }, h("h2", {}, "Win probability"), futures), now);
  const story = h("section", { class: "card chances-story", "aria-label": "How the win probability moved" }, range, drawing, turns, why, everyBox, h("p", { class: "quiet" }, EQUAL));
  /** @type {unknown} */ let drawn = null;

  function side() {
    return { value: h("b", { class: "chances__value" }), name: h("span", { class: "chances__name" }, h("bdi"), h("bdi")) };
  }

  /** @param {any} world @param {"home" | "away"} actor */
  function show(world, actor) {
    const home = percent(world.forecast.home);
    setText(sides[actor].value, String(actor === "home" ? home : 100 - home));
    const captain = world.seats?.[actor]?.label;
    const [team, who] = sides[actor].name.children;
    setText(team, clip(plain(world.teams?.[actor]?.name ?? actor), 24));
    setText(who, captain ? `, ${clip(plain(captain), 24)}` : ""); // on a narrow card it wraps out of sight
  }

  /** @param {any[]} points @param {string} name @param {any} real the real match that is played on, if any */
  function draw(points, name, real) {
    const x = charts.linear([0, Math.max(1, points.length - 1)], [2, WIDTH - 8]);
    const y = charts.linear([0, 1], [HEIGHT - 4, 4]);
    const path = charts.linePath(points.map((point, index) => [x(index), y(point.home)]));
    const second = points.findIndex((point) => point.innings > 1);
    const turning = swings(points);
    replace(drawing, svg("path", { class: "chances__half", d: `M0 ${y(0.5)}H${WIDTH}` }),
      second > 0 ? svg("path", { class: "chances__break", d: `M${x(second - 0.5)} 0V${HEIGHT}` }) : null,
      svg("path", { class: "chances__area", d: `${path}L${x(points.length - 1)} ${y(0.5)}L${x(0)} ${y(0.5)}Z` }),
      svg("path", { class: "chances__path", d: path }),
      real ? svg("path", { class: "chances__real", d: charts.linePath(realPoints(points, real).map((one) => [x(one.index), y(one.home)])) }) : null,
      svg("circle", { class: "chances__dot", cx: x(points.length - 1), cy: y(points.at(-1).home), r: 4 }), ...turning.map((swing) => nameOf(swing, x, y)));
    const told = turning.map((swing) => h("li", {}, momentLink(momentNames.ball(swing.innings, swing.delivery), { class: "chances__swing" },
      h("span", { class: "quiet" }, placeOf(swing)), ` ${markName(swing.mark)} `,
      h("b", { class: swing.change > 0 ? "up" : "down" }, `${swing.change > 0 ? "+" : "−"}${Math.abs(percent(swing.change))}`))));
    replace(turns, ...(told.length ? [h("li", { class: "quiet" }, `Swings for ${name}:`), ...told] : []));
  }

  let told = "";

  /** Why the newest of the large swings happened, and a list of all. @param {any} world */
  function tellWhy(world) {
    const points = pointsOf(world.chances);
    const point = points.at(-1) ?? { innings: 0, delivery: 0 };
    const all = notes();
    const key = `${point.innings} ${point.delivery} ${all.length}`;
    if (key === told) return;
    told = key;
    const found = explained(all, point);
    const link = (/** @type {any} */ swing) => [momentLink(momentNames.ball(swing.innings, swing.delivery), { class: "chances__swing" }, h("span", { class: "quiet" }, `${placeOf(swing)} `)), clip(plain(whyWords(swing, world.teams)), 220)];
    replace(why, ...(found[0] ? [h("b", {}, "Why it moved: "), ...link(found[0])] : [h("span", { class: "quiet" }, "Swings of five points or more are explained here.")]));
    const large = countLarge(points, point);
    everyBox.hidden = large < 2;
    const known = found.length >= large;
    setText(everyTitle, `${known ? "All " : ""}${large} swings of five points or more, beyond the simulation’s error${known ? "" : `; ${found.length} explained`}`);
    replace(every, ...found.map((swing) => h("li", {}, ...link(swing))));
  }

  /** Say what will be here, in the room that it will take. */
  function wait() {
    if (drawn === wait) return;
    drawn = wait;
    setText(futures, "");
    setText(range, "");
    replace(drawing, svg("path", { class: "chances__half", d: `M0 ${HEIGHT / 2}H${WIDTH}` }));
    replace(turns, h("li", { class: "quiet" }, "After each ball the rest of the match is simulated many times; this line will show each side’s share of wins."));
  }

  /** A swing on the line: a dot where it ended, its mark and over beside it. @param {any} swing @param {(value: number) => number} x @param {(value: number) => number} y */
  function nameOf(swing, x, y) {
    const [cx, cy] = [x(swing.index), y(swing.home)];
    const left = cx > WIDTH - 70;
    return svg("g", { class: `chances__turn chances__turn--${swing.change > 0 ? "up" : "down"}`, "aria-hidden": "true", data: { moment: momentNames.ball(swing.innings, swing.delivery) } }, svg("circle", { cx, cy, r: 3.4 }),
      svg("text", { x: cx + (left ? -7 : 7), y: Math.max(10, Math.min(HEIGHT - 3, cy + (swing.change > 0 ? -5 : 12))), "text-anchor": left ? "end" : "start" }, `${markName(swing.mark)} ${swing.at}`));
  }

  return {
    element,
    /** How it went so far and why: under the chances now, on a phone below the fold. */
    story,
    /** @param {any} world */
    update(world) {
      element.hidden = story.hidden = !world.forecast && !world.awaits_forecast;
      now.classList.toggle("chances__now--none", !world.forecast);
      if (!world.forecast) return wait();
      tellWhy(world);
      if (drawn === world.chances) return;
      drawn = world.chances;
      for (const actor of /** @type {const} */ (["home", "away"])) show(world, actor);
      share.setAttribute("width", String(100 * world.forecast.home));
      const { futures: played, total_low: low, total_high: high, total_median: median } = world.forecast;
      setText(futures, played ? `${played.toLocaleString("en")} simulations per ball` : "decided");
      setText(range, played ? `This innings: about ${median}, most likely ${low} to ${high}` : "");
      const points = pointsOf(world.chances);
      if (points.length) draw(points, clip(plain(world.teams?.home?.name ?? "home"), 24), world.real);
    },
  };
}

/** @param {{innings: number, at: string}} swing */
const placeOf = ({ innings, at }) => `${inningsName(innings).replace(" innings", "")} ${at}`;

/** @param {number} chance */
const percent = (chance) => Math.round(100 * chance);

/** Every ball's chance, in order. @param {any} chances */
export function pointsOf(chances) {
  return Object.keys(chances ?? {}).sort().flatMap((innings) =>
    Object.keys(chances[innings]).sort().map((key) => ({ innings: Number(innings), delivery: Number(key), ...chances[innings][key] })));
}

/** The chance in the real match after each of its overs, where that over is played here too. @param {any[]} points @param {any} real */
export const realPoints = (points, real) => (real.prices ?? []).flatMap((/** @type {any} */ price) => {
  const index = points.map((point) => point.innings === price.innings && Number.parseInt(point.at ?? "", 10) === price.over - 1).lastIndexOf(true);
  return index < 0 ? [] : [{ index, home: real.batting[price.innings] === "home" ? 1 - price.after : price.after }];
});

/** What every ball but the first changed. @param {any[]} points */
const changes = (points) => points.slice(1)
  .map((point, index) => ({ index: index + 1, home: point.home, innings: point.innings, delivery: point.delivery, at: point.at ?? "", mark: point.mark ?? "", change: point.home - points[index].home, error: Math.hypot(point.se ?? 0, points[index].se ?? 0) }));

/** How many swings there are to explain, also where their forecasts came before the page. @param {any[]} points @param {any} until */
export const countLarge = (points, until) => explained(changes(points).filter((swing) => swing.delivery).map((/** @type {any} */ note) => /** @type {any} */ ({ note })), until).length;

/** The balls that moved the chance most, the largest first. @param {any[]} points */
export function swings(points) {
  return changes(points)
    .filter((swing) => Math.abs(swing.change) >= Math.max(LEAST, SURE * swing.error))
    .sort((a, b) => Math.abs(b.change) - Math.abs(a.change))
    .slice(0, TURNS);
}
