// @ts-check
// The table of what both captains said, set and got, over by over.

import { keptTo, offPlan, oversOf } from "./deeds.js";
import { inningsWords, momentNames, ordinal, surname } from "./words.js";

/** Overs shown until the viewer asks for all. */
const NEWEST = 6;
const WIDTH = 60;
/** Changes below this, of 1, count as none. */
const NOTHING = 0.0005;

/** @param {any} place @param {any} ctx */
export function mountDeedsTable(place, { ui: { h, svg, replace, setText, clip, plain, momentLink, words }, notes }) {
  const kept = h("p", { class: "deeds__kept" });
  const body = h("div");
  const more = h("button", { class: "button", type: "button", hidden: true, on: { click: () => { whole = !whole; told = ""; draw(); } } });
  replace(place, kept, body, more);
  let whole = false;
  let told = "";
  /** @type {any} */ let world = {};

  /** Said and set on one line from 0 to 1: a stroke where the plan is, a dot where it went. @param {import("./deeds.js").Part} part */
  const gauge = ({ plan, level }) => svg("svg", { class: "deeds__gauge", viewBox: `0 0 ${WIDTH} 10`, "aria-hidden": "true" },
    svg("path", { class: "deeds__line", d: `M5 5H${WIDTH - 5}` }),
    plan === null ? null : svg("path", { class: "deeds__plan", d: `M${at(plan)} 0V10` }),
    svg("circle", { class: "deeds__level", cx: at(level), cy: 5, r: 3.5 }));
  const at = (/** @type {number} */ level) => 5 + (WIDTH - 10) * level;
  const quote = (/** @type {unknown} */ text) => h("span", { class: "deeds__words" }, "“", h("bdi", {}, clip(plain(text), 140)), "”");

  /** @param {import("./deeds.js").Part} part @param {string} did @param {[string, string]} left what it is called to leave the plan upwards and downwards */
  const cell = (part, did, [harder, softer]) => [
    h("span", { class: "deeds__levels" }, gauge(part), part.plan === null ? "no plan, " : `planned ${part.plan.toFixed(2)}, `, `${did} ${part.level.toFixed(2)}`,
      offPlan(part) ? h("b", { class: "deeds__off" }, part.level > (part.plan ?? 0) ? harder : softer) : null),
    part.replanned ? h("span", { class: "deeds__new" }, "New plan: ", quote(part.replanned)) : null,
    part.fresh && part.order?.note ? quote(part.order.note) : null,
  ];

  /** Who bowled, to which field, and how often the length was hit that was asked for. @param {import("./deeds.js").Over} over */
  const bowled = ({ bowlers, named, fields, lengths }) => h("span", { class: "deeds__facts" },
    [`${bowlers.map(surname).join(", ")}${named ? (bowlers[0] === named ? ", as ordered" : `, though ${surname(named)} was ordered`) : ""}`,
      fields.map((field) => `${words(field)} field`).join(", then "),
      ...lengths.map(({ length, asked, hit }) => `${length}: asked ${asked}, came ${hit}`)].map((text) => plain(text)).filter(Boolean).join(" · "));

  const points = (/** @type {number} */ value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`;
  /** @param {import("./deeds.js").Over} over */
  function came({ runs, wickets, change, worth, batting }) {
    const fielding = batting === "home" ? "away" : "home";
    const gains = (change ?? 0) >= 0 ? "home" : "away";
    return [h("span", { class: "deeds__came" }, h("b", {}, `${runs} run${runs === 1 ? "" : "s"}`), wickets ? h("b", { class: "down" }, ` ${wickets} wicket${wickets === 1 ? "" : "s"}`) : null),
      change === null ? null : h("span", { class: "deeds__facts" }, `${name(gains)} ${points(Math.abs(change))} %`),
      change === null ? null : h("span", { class: "deeds__facts" }, [worth.home, worth.away].every((value) => Math.abs(value) < NOTHING) ? "both captains called as usual" : `calls: ${name(batting)} ${points(worth[batting])}, ${name(fielding)} ${points(worth[fielding])}`)];
  }
  const name = (/** @type {string} */ side) => clip(plain(world.teams?.[side]?.name ?? side), 24);

  /** @param {import("./deeds.js").Over} over */
  const row = (over) => {
    const done = world.scorecards?.[over.innings]?.overs?.[over.over] !== undefined;
    return h("tr", {}, h("th", { scope: "row" }, done ? momentLink(momentNames.overEnd(over.innings, over.over), { class: "deeds__over", "aria-label": `Over ${over.over}` }, over.over) : over.over, h("small", {}, over.innings > 2 ? "" : over.phase)),
      h("td", {}, ...cell(over.bat, "played", ["bolder", "more careful"])),
      h("td", {}, ...cell(over.bowl, "set", ["more attacking", "more defensive"]), bowled(over)), h("td", {}, ...came(over)));
  };

  /** @param {import("./deeds.js").Over[]} overs of one innings, the newest first */
  const innings = (overs) => {
    const { batting, innings: number } = overs[0];
    const called = number > 2 ? "Super over" : inningsWords({ innings: number }) || `${ordinal(number)} innings`;
    return h("table", { class: "deeds__table" }, h("caption", {}, `${called} · `, h("bdi", {}, name(batting))),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Over"), h("th", { scope: "col" }, h("bdi", {}, name(batting)), " batting"), h("th", { scope: "col" }, h("bdi", {}, name(batting === "home" ? "away" : "home")), " bowling"), h("th", { scope: "col" }, "Result"))),
      h("tbody", {}, ...overs.map(row)));
  };

  /** @param {import("./deeds.js").Over[]} overs */
  const keptWords = (overs) => /** @type {const} */ (["home", "away"]).map((side) => {
    const found = keptTo(overs, side);
    return found ? `${name(side)} kept to its plan in ${found.overs - found.left} of ${found.overs} overs, ${(1 - found.kept).toFixed(2)} away on average.` : `${name(side)} has given no plan.`;
  }).join(" ");

  function draw() {
    const all = notes();
    const place_ = { innings: world.innings ?? 0, over: world.over?.number ?? 0, delivery: world.over?.marks?.length ?? 0 };
    const key = `${all.length} ${Object.values(place_)} ${whole} ${world.result ?? ""}`;
    if (key === told) return;
    told = key;
    const overs = oversOf(all, world.scorecards ?? {}, place_);
    setText(kept, overs.length ? keptWords(overs) : "No ball has been bowled yet. The plans are on their own card.");
    const shown = overs.slice(whole ? 0 : -NEWEST).reverse();
    const numbers = [...new Set(shown.map((over) => over.innings))];
    replace(body, ...numbers.map((number) => innings(shown.filter((over) => over.innings === number))));
    more.hidden = overs.length <= NEWEST;
    setText(more, whole ? `Only the newest ${NEWEST} overs` : `All ${overs.length} overs`);
  }

  return { update(/** @type {any} */ newest) { world = newest; draw(); } };
}
