// @ts-check
// Who is in, who bowls, and their partnership.

import { economy, strikeRate } from "./words.js";

/** @param {any} ctx */
export function mountCrease({ ui: { h, replace, clip, plain } }) {
  const head = (/** @type {string[]} */ names) => h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name))));
  const batters = h("tbody");
  const bowlers = h("tbody");
  const stand = h("p", { class: "crease__stand quiet" });
  const element = h("section", { class: "card crease", "aria-label": "Batters and bowler" },
    h("table", {}, head(["Batting", "R", "B", "4s", "6s", "SR"]), batters),
    stand,
    h("table", {}, head(["Bowling", "O", "R", "W", "Econ", "Left"]), bowlers));
  /** @type {unknown[]} */
  let drawn = [NaN];

  const cells = (/** @type {any[]} */ values) => values.map((value, index) => h("td", {}, index ? value : h("b", {}, value)));
  const blank = (/** @type {string} */ words, /** @type {string} */ below = "") => h("tr", { class: "off" }, h("th", { scope: "row" }, words, below && h("small", { class: "crease__kind" }, below)), ...Array.from({ length: 5 }, () => h("td", {}, "–")));

  return {
    element,
    /** @param {any} world */
    update(world) {
      const seen = [world.batters, world.bowler, world.partnership, world.scorecards];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const pair = ["striker", "non_striker"].map((end) => [end, world.batters?.[end]]);
      replace(batters, ...pair.map(([end, line]) => (line
        ? h("tr", { class: end === "striker" ? "is-on" : null }, h("th", { scope: "row" }, h("bdi", {}, clip(plain(line.name), 28)), end === "striker" ? h("span", { class: "is-on__mark", title: "on strike" }, "\u00a0•", h("span", { class: "unseen" }, " on strike")) : ""),
          ...cells([line.runs, line.balls, line.fours, line.sixes, strikeRate(line.runs, line.balls)]).map((cell, index) => (index ? cell : h("td", {}, h("b", {}, line.runs)))))
        : blank(world.result ? "innings over" : "next batter"))));
      const line = world.bowler;
      replace(bowlers, line
        ? h("tr", { class: "is-on" }, h("th", { scope: "row" }, h("bdi", {}, clip(plain(line.name), 28)), h("small", { class: "crease__kind" }, clip(plain(line.kind), 24))),
          h("td", {}, line.overs), h("td", {}, line.runs), h("td", {}, h("b", {}, line.wickets)), h("td", {}, economy(line.runs, line.overs)), h("td", {}, line.left))
        : blank("next bowler", "\u00a0"));
      const { runs = 0, balls = 0 } = world.partnership ?? {};
      replace(stand, world.partnership && world.batters ? ["Partnership ", h("b", {}, runs), ` off ${balls}`] : "");
    },
  };
}
