// @ts-check
// The score strip: who bats, what they have, what they need.

import { inningsWords } from "./words.js";

/** @param {HTMLElement} place @param {any} ctx */
export function mountScore(place, { ui: { h, setText, replace, clip, plain } }) {
  const team = { name: h("bdi"), captain: h("small") };
  const runs = h("span");
  const wickets = h("span");
  const total = h("span", { class: "score__runs", role: "img" }, runs, h("i", {}, "/"), wickets);
  const overs = h("b");
  const ofOvers = h("small");
  const bat = h("div", { class: "score__side" }, h("span", { class: "score__team" }, team.name, " ", team.captain),
    total, h("span", { class: "score__overs" }, overs, " ", ofOvers));
  const equation = h("p", { class: "score__equation" });
  const otherTeam = { name: h("bdi"), captain: h("small") };
  const otherScore = h("span", { class: "score__target" });
  const otherNote = h("span", { class: "score__overs" });
  const other = h("div", { class: "score__side score__side--other" }, h("span", { class: "score__team" }, otherTeam.name, " ", otherTeam.captain), otherScore, otherNote);
  const badges = h("ul", { class: "score__badges" });
  const element = h("section", { class: "score", "aria-label": "Score" }, bat, equation, other, badges);
  place.append(element);

  /** @param {any} world */
  function drawEquation(world) {
    const { equation: now = {} } = world;
    if (world.result) return replace(equation, h("strong", { class: "score__result" }, h("bdi", {}, world.result)));
    if (now.need !== undefined) {
      return replace(equation, h("span", { class: "score__need" }, h("strong", {}, `Need ${now.need}`), ` off ${now.balls} ball${now.balls === 1 ? "" : "s"}`),
        h("span", { class: "quiet" }, `required ${fixed(now.required)} · current ${fixed(now.current)}`));
    }
    if (now.current !== undefined) {
      return replace(equation, h("span", { class: "score__need" }, h("strong", {}, fixed(now.current)), " an over"),
        h("span", { class: "quiet" }, now.projected === undefined ? "" : `projected ${now.projected} (simulated)`));
    }
    replace(equation, h("span", { class: "quiet" }, tossWords(world)));
  }

  return { element, update };

  /** @param {any} world */
  function update(world) {
    const side = world.batting ?? "home";
    const away = side === "home" ? "away" : "home";
    const score = world.score?.[side] ?? {};
    for (const [place, actor] of /** @type {const} */ ([[team, side], [otherTeam, away]])) {
      const name = world.teams?.[actor]?.name ?? "";
      setText(place.name, name);
      setText(place.captain, name && clip(plain(world.seats?.[actor]?.label ?? ""), 40)); // together, so that nothing moves
    }
    setText(runs, score.runs ?? 0);
    setText(wickets, score.wickets ?? 0);
    total.setAttribute("aria-label", `${score.runs ?? 0} for ${score.wickets ?? 0}`);
    setText(overs, score.overs ?? "0.0");
    setText(ofOvers, world.format ? `of ${world.super_over ? 1 : world.format.overs}` : "");
    drawEquation(world);
    const has = (world.score?.[away]?.balls ?? 0) > 0 || world.target !== undefined;
    setText(otherScore, has ? `${world.score[away].runs}/${world.score[away].wickets}` : "");
    replace(otherNote, world.target !== undefined ? ["target ", h("b", {}, world.target)] : has ? "" : "yet to bat");
    replace(badges, ...badgesOf(world).map(([words, look]) => h("li", { class: `badge ${look}` }, words)));
  }
}

/** @param {any} world @returns {[string, string][]} words and look */
function badgesOf(world) {
  /** @type {[string, string][]} */
  const badges = [];
  if (world.badges?.free_hit) badges.push(["Free hit", "badge--loud"]);
  if (inningsWords(world)) badges.push([inningsWords(world), world.super_over ? "badge--loud" : ""]);
  if (world.badges?.powerplay) badges.push(["Powerplay", ""]);
  if (world.teams && world.toss) badges.push([tossWords(world), "score__toss"]);
  return badges;
}

/** @param {any} world */
function tossWords(world) {
  if (!world.toss) return "Before the toss";
  return `${world.teams?.[world.toss.winner]?.name ?? world.toss.winner} won the toss and chose to ${world.toss.elected}`;
}

/** @param {unknown} rate */
const fixed = (rate) => (typeof rate === "number" ? rate.toFixed(1) : "–");
