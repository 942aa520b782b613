// @ts-check
// The scorecards, the innings under way first, with extras and fall of wickets.

import { economy, momentNames, strikeRate } from "./words.js";

/** @param {any} ctx */
export function mountCards({ ui: { h, keyed, replace, clip, plain, momentLink } }) {
  const element = h("div", { class: "cards" });
  /** @type {unknown[]} */ let drawn = [NaN];
  /** What each section shows; one that comes back after a jump shows nothing yet. @type {WeakMap<Element, unknown>} */ const known = new WeakMap();

  const row = (/** @type {any[]} */ values, name = "") => h("tr", { class: name }, ...values.map((value, index) => (index ? h("td", {}, value) : h("th", { scope: "row" }, value))));
  const head = (/** @type {string[]} */ names) => h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name))));

  /** @param {any} card @param {any} score @param {string} label @param {number} innings */
  function content(card, score, label, innings) {
    const extras = card.extras ?? {};
    const kinds = [["wides", "wd"], ["noballs", "nb"], ["byes", "b"], ["legbyes", "lb"], ["penalties", "pen"]].filter(([key]) => extras[key]).map(([key, short]) => `${extras[key]} ${short}`);
    const lines = (/** @type {any} */ object) => Object.entries(object ?? {}).sort(([a], [b]) => Number(a) - Number(b)).map(([, line]) => line);
    const fall = lines(card.fall);
    return [
      h("header", { class: "card__head" }, h("h2", {}, label), h("span", {}, h("b", {}, `${score.runs ?? 0}/${score.wickets ?? 0}`), h("span", { class: "quiet" }, ` in ${score.overs ?? "0.0"}`))),
      h("table", {}, head(["Batting", "R", "B", "4s", "6s", "SR"]), h("tbody", {}, ...lines(card.batting).map((line) => row([
        [h("bdi", {}, clip(plain(line.name), 32)), h("small", { class: "cards__out" }, h("bdi", {}, clip(plain(line.how_out ?? ""), 70)))],
        h("b", {}, line.runs ?? 0), line.balls ?? 0, line.fours ?? 0, line.sixes ?? 0, strikeRate(line.runs ?? 0, line.balls ?? 0),
      ].map((value, index) => (index ? value : h("span", {}, ...value))), line.how_out === "not out" ? "is-on" : "")),
      h("tr", { class: "cards__extras" }, h("th", { scope: "row" }, "Extras ", h("small", {}, kinds.join(", "))), h("td", {}, h("b", {}, extras.total ?? 0)), h("td", { colspan: 4 })))),
      fall.length ? h("p", { class: "cards__fall" }, h("b", {}, "Fall: "), fall.flatMap((one, index) => [index ? " · " : "", momentLink(momentNames.wicket(innings, one.wicket), {}, `${one.score}-${one.wicket} ${plain(one.name)} (${one.at})`)])) : null,
      h("table", {}, head(["Bowling", "O", "M", "R", "W", "Econ"]), h("tbody", {}, ...lines(card.bowling).map((line) => row([
        h("bdi", {}, clip(plain(line.name), 32)), line.overs, line.maidens ?? 0, line.runs ?? 0, h("b", {}, line.wickets ?? 0), economy(line.runs ?? 0, line.overs)])))),
    ];
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      const seen = [world.scorecards, world.score];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const numbers = Object.keys(world.scorecards ?? {}).sort((a, b) => Number(b) - Number(a));
      keyed(element, numbers, (/** @type {string} */ number) => number, () => h("section", { class: "card" }));
      for (const section of element.children) {
        const number = section.dataset.key;
        const card = world.scorecards[number];
        const score = card.total ?? world.score?.[card.side] ?? {};
        if (known.get(section) === card) continue;
        known.set(section, card);
        const label = `${card.name ?? world.teams?.[card.side]?.name ?? ""}${Number(number) > 2 ? " · super over" : ""}`;
        section.setAttribute("aria-label", `Scorecard, ${plain(label)}`);
        replace(section, ...content(card, score, label, Number(number)));
      }
    },
  };
}
