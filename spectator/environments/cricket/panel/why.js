// @ts-check
// Why the chance to win moved: what each captain's call did to it, and what is left, how the ball came out; pure.

import { markKind } from "./words.js";

/** Least change, of 1, that is explained. */
export const LEAST = 0.05;
/** Standard errors that a change must exceed to be sure. */
const SURE = 3;
/** Changes below this, of 1, count as none. */
const NOTHING = 0.0005;

/**
 * A ball that moved the chance to win, as the page keeps it.
 * @typedef {object} Swing
 * @property {number} innings
 * @property {number} delivery of the innings, as forecasts count
 * @property {string} at over and ball
 * @property {string} mark
 * @property {"home" | "away"} batting
 * @property {number} change of the home side's chance, of 1
 * @property {number} error standard error of that
 * @property {number} batted what the batting captain's call did to that side's own chance, over all outcomes of the ball
 * @property {number} bowled the same of the fielding captain's
 */

/**
 * The swing of a forecast; null for the first of an innings, or without an earlier forecast.
 * @param {any} event @param {any} before the state that it changed @returns {Swing | null}
 */
export function swingOf({ type, data }, before) {
  const last = before?.world?.forecast;
  if (type !== "cricket.forecast" || !last || data.delivery === 0) return null;
  const { at = "", mark = "" } = before.world.last_ball ?? {};
  return { innings: data.innings, delivery: data.delivery, at, mark, batting: data.batting, change: data.home - last.home, error: Math.hypot(data.se ?? 0, last.se ?? 0), batted: data.batting_value, bowled: data.bowling_value };
}

/**
 * The parts of a swing for the side that it helped; they add up to the whole.
 * @param {Swing} swing @returns {{gains: "home" | "away", loses: "home" | "away", points: number, own: number, others: number, luck: number, sure: boolean}}
 */
export function partsOf({ change, error, batting, batted, bowled }) {
  const gains = change >= 0 ? "home" : "away";
  const points = Math.abs(change);
  const own = gains === batting ? batted : bowled;
  const others = -(gains === batting ? bowled : batted) + 0;
  return { gains, loses: gains === "home" ? "away" : "home", points, own, others, luck: points - own - others, sure: points > SURE * error };
}

/** @param {string} mark */
const ballWords = (mark) => ({ wicket: "the wicket", six: "the six", four: "the four", dot: "the dot ball", extra: "the extra", run: "the ball" })[markKind(mark)];

/** @param {number} value of 1 */
const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`;

/** A name that owns something: one that ends in an s takes the apostrophe alone. @param {string} name */
const owner = (name) => (name.endsWith("s") ? `${name}’` : `${name}’s`);

/**
 * A sentence on a swing, in points of a hundred.
 * @param {Swing} swing @param {Record<string, {name: string} | undefined>} teams
 */
export function whyWords(swing, teams) {
  const { gains, loses, points, own, others, luck } = partsOf(swing);
  const name = (/** @type {"home" | "away"} */ side) => teams?.[side]?.name ?? side;
  const calls = [[own, `${owner(name(gains))} call ${signed(own)}`], [others, `${owner(name(loses))} call ${signed(others)}`]]
    .filter(([value]) => Math.abs(/** @type {number} */ (value)) >= NOTHING).map(([, words]) => words);
  if (calls.length === 0) return `${name(gains)} +${Math.round(100 * points)}: all of it from how ${ballWords(swing.mark)} came out; both captains called as usual.`;
  return `${name(gains)} +${Math.round(100 * points)}: ${calls.join(", ")}, how ${ballWords(swing.mark)} came out ${signed(luck)}.`;
}

/** The swings that are explained, until a place, the newest first: large, and beyond the error of the simulation. @param {{seq: number, note: Swing}[]} notes @param {{innings: number, delivery: number}} until */
export function explained(notes, until) {
  return notes.map(({ note }) => note).filter((swing) => "change" in swing && Math.abs(swing.change) >= LEAST && partsOf(swing).sure && (swing.innings < until.innings || (swing.innings === until.innings && swing.delivery <= until.delivery))).reverse();
}
