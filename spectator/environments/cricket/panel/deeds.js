// @ts-check
// What each captain said it would do, over by over, beside what was bowled and played and what came of it; pure.

/** The last part of an innings, as captains plan for it. */
const DEATH_SHARE = 0.25;
/** Difference of a level, of 1, from which a captain is said to have left its plan. */
export const OFF_PLAN = 0.15;

/**
 * One side's part in an over.
 * @typedef {object} Part
 * @property {number | null} plan level that its match plan names, the mean of the balls that it covers; null where it covers none
 * @property {number} planned balls that the plan covers
 * @property {number} far sum, over those, of the distance from the plan
 * @property {any} order its newest order or strategy by the end of the over; null before the first
 * @property {boolean} fresh whether that was given for this over
 * @property {string} replanned its match plan in words, where it changed it before this over's end
 * @property {number} level what it set, the mean of the balls
 */

/**
 * @typedef {object} Over
 * @property {number} innings
 * @property {number} over from 1
 * @property {"home" | "away"} batting
 * @property {string} phase of its first ball
 * @property {Part} bat
 * @property {Part} bowl
 * @property {string[]} bowlers who bowled
 * @property {string} named who was ordered to bowl it; empty if no one was
 * @property {string[]} fields
 * @property {{length: string, asked: number, hit: number}[]} ordered lengths, and how often the ball had that length
 * @property {number} balls
 * @property {number} runs
 * @property {number} wickets
 * @property {number | null} change of the home side's chance, of 1; null without forecasts
 * @property {{home: number, away: number}} worth what both captains' calls did to their own side's chance, of 1
 */

/** Orders and plans so far, by side and part. @typedef {{orders: Record<string, any>, plans: Record<string, any>, bound: Record<string, any>, told: Set<string>, begun: boolean}} Told */

/**
 * Every over that was begun, in order, up to a ball.
 * @param {{note: any}[]} notes of the panel, in order
 * @param {Record<string, any>} cards of the innings, for how long each is
 * @param {{innings: number, over: number, delivery: number}} until the newest ball that is shown, and its over, from 1
 * @returns {Over[]}
 */
export function oversOf(notes, cards, until) {
  /** @type {Over[]} */ const overs = [];
  /** @type {Told} */ const said = { orders: {}, plans: {}, bound: {}, told: new Set(), begun: false };
  for (const { note } of notes) {
    const { deed } = note;
    const over = overs.at(-1);
    if (deed?.plan) takePlan(said, deed);
    else if (deed && !deed.intents) said.bound = { ...said.plans };
    else if (deed) {
      if (later(deed, until)) break;
      takeBall(said, overs, deed, cards[deed.innings]?.balls ?? 0);
    } else if (over && "change" in note) {
      over.change = (over.change ?? 0) + note.change;
      over.worth[/** @type {"home" | "away"} */ (note.batting)] += note.batted;
      over.worth[other(note.batting)] += note.bowled;
    }
  }
  return overs;
}

/** @param {any} ball @param {{innings: number, over: number, delivery: number}} until */
function later({ innings, over, delivery }, until) {
  if (innings !== until.innings) return innings > until.innings;
  return over + 1 === until.over ? delivery > until.delivery : over + 1 > until.over;
}

/** @param {"home" | "away"} side @returns {"home" | "away"} */
const other = (side) => (side === "home" ? "away" : "home");

/** A match plan binds from the next over on; the first of all at once. @param {Told} said @param {any} deed */
function takePlan(said, { side, part, plan }) {
  said.told.add(`${side} ${part}`);
  if (part !== "match_plan") said.orders[`${side} ${part}`] = { ...plan, taken: 0 };
  else {
    said.plans[side] = plan;
    if (!said.begun) said.bound[side] = plan;
  }
}

/** @param {Told} said @param {Over[]} overs @param {any} ball @param {number} balls of the innings */
function takeBall(said, overs, ball, balls) {
  const { innings, over: index, side, intents } = ball;
  let over = /** @type {Over} */ (overs.at(-1));
  if (over?.innings !== innings || over.over !== index + 1) overs.push(over = begin(said, ball, phaseOf(ball, balls)));
  said.begun = true;
  count(said, over.bat, side, "batting", intents.aggression, phaseOf(ball, balls), over.balls);
  count(said, over.bowl, other(side), "bowling", intents.attack, phaseOf(ball, balls), over.balls);
  said.told.clear();
  over.balls += 1;
  over.runs += ball.runs;
  over.wickets += ball.dismissal ? 1 : 0;
  for (const [list, one] of /** @type {[string[], string][]} */ ([[over.bowlers, ball.bowler], [over.fields, intents.field]])) if (one && !list.includes(one)) list.push(one);
  if (!intents.length) return;
  let asked = over.lengths.find((one) => one.length === intents.length);
  if (!asked) over.lengths.push(asked = { length: intents.length, asked: 0, hit: 0 });
  asked.asked += 1;
  asked.hit += ball.length === intents.length ? 1 : 0;
}

/** @param {any} ball @param {number} balls of the innings */
const phaseOf = (ball, balls) => (ball.powerplay ? "powerplay" : balls - (6 * ball.over + ball.ball - 1) <= DEATH_SHARE * balls ? "death" : "middle");

/** @param {Told} said @param {any} ball its first @param {string} phase @returns {Over} */
function begin({ orders }, { innings, over, side }, phase) {
  const part = () => ({ plan: null, planned: 0, far: 0, order: null, fresh: false, replanned: "", level: 0 });
  const order = orders[`${other(side)} bowling`];
  const named = order?.bowlers?.[order.taken] ?? "";
  if (order) order.taken += 1;
  return { innings, over: over + 1, batting: side, phase, bat: part(), bowl: part(), bowlers: [], named, fields: [], lengths: [], balls: 0, runs: 0, wickets: 0, change: null, worth: { home: 0, away: 0 } };
}

/** @param {Told} said @param {Part} part @param {string} side @param {string} role @param {number} level set for the ball @param {string} phase @param {number} before balls of the over before it */
function count({ orders, plans, bound, told }, part, side, role, level, phase, before) {
  part.level += (level - part.level) / (before + 1);
  part.order = orders[`${side} ${role}`] ?? null;
  part.fresh ||= told.has(`${side} ${role}`);
  if (told.has(`${side} match_plan`)) part.replanned = plans[side].summary ?? "";
  const plan = bound[side]?.[`${role}_${phase}`];
  if (typeof plan !== "number") return;
  part.planned += 1;
  part.far += Math.abs(level - plan);
  part.plan = (part.plan ?? 0) + (plan - (part.plan ?? 0)) / part.planned;
}

/** Whether a captain left its plan in an over. @param {Part} part */
export const offPlan = ({ plan, planned, far }) => plan !== null && far / planned >= OFF_PLAN;

/**
 * How near a side's balls came to its own plan: 1 less the mean distance, over the balls that a plan covers.
 * @param {Over[]} overs @param {"home" | "away"} side @returns {{kept: number, balls: number, left: number, overs: number} | null} null where no plan covers any; `left` counts the overs off plan
 */
export function keptTo(overs, side) {
  const parts = overs.map((over) => (over.batting === side ? over.bat : over.bowl)).filter((part) => part.planned > 0);
  const balls = parts.reduce((sum, part) => sum + part.planned, 0);
  const far = parts.reduce((sum, part) => sum + part.far, 0);
  return balls ? { kept: 1 - far / balls, balls, left: parts.filter(offPlan).length, overs: parts.length } : null;
}
