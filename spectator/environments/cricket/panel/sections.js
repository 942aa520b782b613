// @ts-check
// A match in words: the score, the ball, who is in, the cards, a line for everything; pure.

import { EQUAL, parWords } from "./par.js";
import { economy, inningsName, inningsWords, markWords, ordinal } from "./words.js";

/** @typedef {{title: string, lines: string[]}} Section */

/** @param {any} world @returns {Section[]} */
export function sections(world) {
  if (!world.teams) return [];
  return [
    { title: "Score", lines: scoreLines(world) },
    ...(world.ground ? [{ title: "Ground", lines: groundLines(world.ground) }] : []),
    { title: "Last ball", lines: ballLines(world) },
    { title: "In the middle", lines: middleLines(world) },
    { title: "Chances, simulated", lines: chanceLines(world) },
    ...Object.keys(world.scorecards ?? {}).sort((a, b) => Number(b) - Number(a)).map((number) => cardSection(world, number)),
  ];
}

const SECTORS = ["fine leg", "square leg", "midwicket", "long-on", "long-off", "cover", "point", "third"];

/** @param {any} ground */
function groundLines(ground) {
  const sizes = SECTORS.map((name, at) => `${name} ${ground.boundaries?.[at]} m`).join(", ");
  return [`Boundary for a right-hander at the first end: ${sizes}. Overs change ends.`];
}

/** @param {any} world */
function scoreLines(world) {
  const { equation = {}, batting, badges = {} } = world;
  const sides = [batting, batting === "home" ? "away" : "home"].filter(Boolean).map((side) => {
    const score = world.score?.[side] ?? {};
    return `${world.teams[side].name} ${score.runs ?? 0} for ${score.wickets ?? 0}, ${score.overs ?? "0.0"} overs${side === batting && world.result === undefined ? ", batting" : ""}`;
  });
  const rate = equation.current === undefined ? "" : `${equation.current.toFixed(1)} an over`;
  const decided = world.result !== undefined;
  return [world.result ?? "", ...sides, inningsWords(world), decided ? "" : equation.need === undefined ? rate : `Need ${equation.need} off ${equation.balls}; required ${equation.required?.toFixed(1) ?? "–"}, current ${equation.current?.toFixed(1) ?? "–"}`,
    decided || equation.projected === undefined ? "" : `Projected ${equation.projected}, simulated`, badges.free_hit ? "Free hit" : "", badges.powerplay ? "Powerplay" : "",
    world.toss ? `${world.teams[world.toss.winner]?.name} won the toss and chose to ${world.toss.elected}` : "Before the toss", parWords(world)].filter(Boolean);
}

/** @param {any} world */
function ballLines(world) {
  const { last_ball: ball, over } = world;
  if (!ball) return ["No ball has been bowled yet."];
  const worth = (/** @type {number | undefined} */ value) => (typeof value === "number" ? `, worth ${value > 0 ? "+" : ""}${(100 * value).toFixed(1)} % to its side` : "");
  const sides = /** @type {["bowling" | "batting", string][]} */ ([["bowling", "bowled"], ["batting", "played"]]).filter(([role]) => ball.decisions?.[role]).map(([role, verb]) => {
    const made = ball.decisions[role];
    return `${world.teams[made.actor]?.name} ${verb}: ${(made.reasoning || "no reason given").replace(/\.$/, "")}${worth(ball.values?.[role])}`;
  });
  return [`${ball.at}  ${ball.words}`, ...sides, over?.marks?.length ? `Over ${over.number}: ${over.marks.map(markWords).join(", ")}` : ""].filter(Boolean);
}

/** @param {any} world */
function middleLines(world) {
  const pair = ["striker", "non_striker"].map((end) => [end, world.batters?.[end]]).filter(([, line]) => line)
    .map(([end, line]) => `${line.name} ${line.runs} off ${line.balls}${end === "striker" ? ", on strike" : ""}`);
  const line = world.bowler;
  return [...pair, world.partnership && world.batters ? `Partnership ${world.partnership.runs} off ${world.partnership.balls}` : "",
    line ? `${line.name} bowls: ${line.wickets} for ${line.runs} in ${line.overs}, ${line.left} left` : "",
    world.field ? `Field: ${String(world.field.preset).replaceAll("_", " ")}; ${Object.values(world.field.fielders ?? {}).map((/** @type {any} */ one) => one.name).join(", ")}` : ""].filter(Boolean);
}

/** @param {any} world */
function chanceLines(world) {
  if (!world.forecast) return [];
  const home = Math.round(100 * world.forecast.home);
  return [`${world.teams.home.name} ${home} %, ${world.teams.away.name} ${100 - home} %`,
    world.forecast.futures ? `This innings: about ${world.forecast.total_median}, most likely ${world.forecast.total_low} to ${world.forecast.total_high}. ${EQUAL}` : ""].filter(Boolean);
}

/** @param {number} count @param {string} one @param {string} [many] */
const several = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** @param {any} world @param {string} number @returns {Section} */
function cardSection(world, number) {
  const card = world.scorecards[number];
  const score = card.total ?? world.score?.[card.side] ?? {};
  const inOrder = (/** @type {any} */ lines) => Object.entries(lines ?? {}).sort(([a], [b]) => Number(a) - Number(b)).map(([, line]) => line);
  const extras = card.extras ?? {};
  return {
    title: `${card.name}, ${inningsName(Number(number))}: ${score.runs ?? 0} for ${score.wickets ?? 0} in ${score.overs ?? "0.0"}`,
    lines: [
      ...inOrder(card.batting).map((line) => `${line.name}, ${line.how_out ?? ""}: ${line.runs ?? 0} off ${line.balls ?? 0}, ${several(line.fours ?? 0, "four")}, ${several(line.sixes ?? 0, "six", "sixes")}`),
      `Extras ${extras.total ?? 0}`,
      ...inOrder(card.fall).map((one) => `${ordinal(one.wicket)} wicket at ${one.score}, ${one.name}, ${one.at} overs`),
      ...inOrder(card.bowling).map((line) => `${line.name} bowled ${line.overs}, ${several(line.maidens ?? 0, "maiden")}, ${line.wickets ?? 0} for ${line.runs ?? 0}, ${economy(line.runs ?? 0, line.overs)} an over`),
    ],
  };
}
