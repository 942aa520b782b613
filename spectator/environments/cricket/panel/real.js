// @ts-check
// The real match that is played on: its line beside the one played here, and what its overs were worth.

import { inningsName, oversOf } from "./words.js";

const points = (/** @type {number | undefined} */ share) => (share === undefined ? "–" : `${Math.round(100 * share)}`);
const signed = (/** @type {number} */ share) => Math.abs(share) < 0.0005 ? "0.0" : `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;
const HEAD = ["Over", "Real score", "Played here", "Real chance", "Played here", "Real bowler", "Best choice", "Worth", "Luck"];

/**
 * Every over of an innings, real and played here; chances are the home side's.
 * @param {any} world @param {string} number of the innings
 */
export function realRows(world, number) {
  const { lines = {}, batting = {}, prices = [] } = world.real ?? {};
  const played = new Map(oversOf(world.scorecards?.[number], null).map((/** @type {any} */ one) => [one.over, one]));
  /** @type {Record<number, number>} by over, as last simulated in it */ const chances = {};
  for (const [, one] of Object.entries(world.chances?.[number] ?? {}).sort(([a], [b]) => Number(a) - Number(b))) if (one.at !== undefined) chances[Number.parseInt(one.at, 10) + 1] = one.home;
  let wickets = 0;
  return Array.from({ length: Math.max(lines[number]?.length ?? 0, played.size) }, (_, index) => {
    const over = index + 1;
    const real = lines[number]?.[index];
    const here = played.get(over);
    wickets += here?.wickets ?? 0;
    const price = prices.find((/** @type {any} */ one) => one.innings === Number(number) && one.over === over);
    const home = price && (batting[number] === "home" ? 1 - price.after : price.after);
    return [over, real ? `${real[0]}-${real[1]}` : "–", here ? `${here.score}-${wickets}` : "–", points(home), points(chances[over]),
      ...(price ? [price.bowler, price.best > price.before ? price.best_bowler : "the same", signed(price.before - price.best), signed(price.after - price.before)] : ["–", "–", "–", "–"])];
  });
}

/** @param {any} ctx */
export function mountReal({ ui: { h, replace, setText, clip, plain } }) {
  const words = h("p");
  const tables = h("div", { class: "real__tables", tabindex: "0", role: "group", "aria-label": "Overs of the real match" });
  const source = h("p", { class: "quiet" });
  const element = h("section", { class: "card real", "aria-label": "The real match" }, h("header", { class: "card__head" }, h("h2", {}, "The real match")), words, tables, source);
  /** @type {unknown[]} */ let drawn = [NaN];

  return {
    element,
    /** @param {any} world */
    update(world) {
      const seen = [world.real, world.scorecards, world.chances, world.result];
      if (!world.real || seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const { title, venue, date, result, start, prices } = world.real;
      setText(words, clip(plain(`${title}, ${venue}, ${date}. Real result: ${result}. Played on from ${start}${world.result ? `: ${world.result}` : ""}.`), 400));
      const head = prices ? HEAD : HEAD.slice(0, 3);
      replace(tables, ...Object.keys(world.real.lines).sort().map((number) => h("details", { open: Number(number) === world.innings }, h("summary", {}, inningsName(Number(number))),
        h("table", {}, h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, ...realRows(world, number).map((row) => h("tr", {}, ...row.slice(0, head.length).map((cell, index) => (index ? h("td", {}, clip(plain(String(cell)), 28)) : h("th", { scope: "row" }, cell))))))))));
      setText(source, `${prices ? `Chances in %, of ${clip(plain(world.teams?.home?.name ?? "home"), 40)}. Worth: the real bowler against the best choice, for the fielding side; luck: everything else in the over, fields and strokes included. ` : ""}Dotted lines above are the real match. ${world.real.attribution}.`);
    },
  };
}
