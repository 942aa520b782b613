// @ts-check
// The bowling card of the innings: figures, and the overs that each has left.

import { ballsOf, economy } from "./words.js";

/** @param {any} ctx */
export function mountBowlers({ ui: { h, svg, replace, setText, clip, plain } }) {
  const note = h("span", { class: "quiet" });
  const rows = h("tbody");
  const head = h("thead", {}, h("tr", {}, ...["Bowler", "O", "M", "R", "W", "Econ", "Overs left"].map((name) => h("th", { scope: "col" }, name))));
  const empty = h("p", { class: "quiet" }, "No one has bowled yet.");
  const table = h("table", {}, head, rows);
  const element = h("section", { class: "card bowlers", "aria-label": "Bowling card" },
    h("header", { class: "card__head" }, h("h2", {}, "Bowling"), note), empty, table);
  /** @type {unknown[]} */ let drawn = [NaN];

  /** One square an over that the limit allows, filled while it is left. @param {number} left @param {number} limit */
  const pips = (left, limit) => (limit > 10 ? null : svg("svg", { class: "bowlers__pips", viewBox: `0 0 ${limit * 10} 8`, width: limit * 10, height: 8, "aria-hidden": "true" },
    ...Array.from({ length: limit }, (_, place) => svg("rect", { class: place < left ? "is-left" : null, x: place * 10 + 0.5, y: 0.5, width: 7, height: 7, rx: 1.5 }))));

  return {
    element,
    /** @param {any} world */
    update(world) {
      const card = world.scorecards?.[world.innings];
      const seen = [card?.bowling, world.bowler, world.format];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const lines = Object.entries(card?.bowling ?? {}).sort(([a], [b]) => Number(a) - Number(b)).map(([, line]) => line)
        .sort((a, b) => ballsOf(b.overs) - ballsOf(a.overs));
      const limit = world.super_over ? 1 : world.format?.bowler_limit_overs ?? 0;
      empty.hidden = lines.length > 0;
      table.hidden = lines.length === 0;
      setText(note, limit ? `at most ${limit} over${limit === 1 ? "" : "s"} each` : "");
      replace(rows, ...lines.map((line) => {
        const on = line.name === world.bowler?.name;
        return h("tr", { class: on ? "is-on" : null }, h("th", { scope: "row" }, h("bdi", {}, clip(plain(line.name), 28)), on ? h("span", { class: "is-on__mark" }, "\u00a0•", h("span", { class: "unseen" }, " bowling")) : null,
          h("small", { class: "crease__kind" }, clip(plain(line.kind ?? ""), 24))),
        ...[line.overs, line.maidens ?? 0, line.runs ?? 0, h("b", {}, line.wickets ?? 0), economy(line.runs ?? 0, line.overs)].map((cell) => h("td", {}, cell)),
        h("td", { class: "bowlers__left" }, pips(line.left ?? 0, limit), " ", line.left ?? "–"));
      }));
    },
  };
}
