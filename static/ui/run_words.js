// @ts-check
// What is said of a run's figures, and which of its groups are looked at in which order; pure.

import { ago, plural } from "./text.js";

const SLOW_TIMES = 3;
const STALLED_TIMES = 10;
const STALLED_LEAST_S = 10;
const QUIET_S = 60;

export const ORDERS = { "": "by name", newest: "newest first", worst: "lowest mean first", best: "highest mean first", spread: "widest spread first" };

/** Seconds in words. @param {number} seconds */
export function took(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} d`;
}

/** @param {string} at RFC 3339 @param {number} now_ms */
export const idleWords = (at, now_ms) => took(Math.max(0, (now_ms - Date.parse(at)) / 1000));

/** @param {number | null | undefined} value */
export const figure = (value) => (typeof value === "number" ? String(Math.round(value * 1000) / 1000).replace("-", "−") : "");

/** @param {number | null | undefined} value */
export const percent = (value) => (typeof value === "number" ? `${Math.round(value * 1000) / 10}\u00a0%` : "unknown");

/** A server's message as a sentence. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** A count in few characters. @param {number} count */
export const many = (count) => (count < 1_000 ? figure(count) : count < 1e6 ? `${figure(Math.round(count / 10) / 100)}k` : `${figure(Math.round(count / 1e4) / 100)}M`);

/** A mean reward, and all that says what it is worth. @param {any} counted @param {number} count @returns {[string, string][]} */
export function rewardWords(counted, count) {
  if (typeof counted.mean !== "number" && typeof counted.own_share !== "number") return [];
  /** @type {[string, string][]} */
  const said = [[percent(counted.own_share), "own share"]];
  if (typeof counted.mean === "number") said.unshift([figure(counted.mean) + (typeof counted.error === "number" ? ` ± ${figure(counted.error)}` : ""), `mean reward over ${plural(count, "episode")}`]);
  if (counted.refusals) said.push([String(counted.refusals), `answers refused${counted.refused_share ? ` (${percent(counted.refused_share)})` : ""}`]);
  if (counted.cut_share) said.push([percent(counted.cut_share), "cut off at a limit of length"]);
  if (counted.penalised) said.push([String(counted.penalised), "penalised"]);
  return said;
}

/** How far the model decided an episode itself. @param {any} member @returns {string[]} */
export const ownWords = (member) => [typeof member.own_share === "number" ? `own share ${percent(member.own_share)}` : "", member.refusals ? `${member.refusals} refused` : "", member.penalised ? "penalised" : ""].filter(Boolean);

/** Whether an episode without an end moves. @param {any} one @param {any} run @param {number} now_ms */
export function standingOf(one, run, now_ms) {
  const idle = (now_ms - Date.parse(one.moved_at)) / 1000;
  if (!run.usual_turn_s) return idle > QUIET_S ? "slow" : "playing";
  if (idle > Math.max(STALLED_LEAST_S, STALLED_TIMES * run.usual_turn_s)) return "stalled";
  return idle > Math.max(1, SLOW_TIMES * run.usual_turn_s) ? "slow" : "playing";
}

/** The run's figures, each with what it counts. @param {any} run @param {number} now_ms @returns {[string, string][]} */
export function progressWords(run, now_ms) {
  const total = run.episodes ?? null;
  const over = run.over ?? 0;
  const quiet = run.moved_at ? (now_ms - Date.parse(run.moved_at)) / 1000 : null;
  /** @type {[string, string][]} */
  const shown = [[total === null ? String(over) : `${over} of ${total.toLocaleString("en")}`, "episodes finished"]];
  if (run.playing) shown.push([String(run.playing), "running"]);
  const left = total === null ? 0 : total - over;
  if (left > 0 && quiet !== null && quiet > QUIET_S) shown.push([took(quiet), "without an update: is a worker running?"]);
  else if (left > 0 && run.a_second) shown.push([took(left / run.a_second), "left at the current rate"]);
  else if (total !== null && left <= 0 && run.moved_at) shown.push(["Finished", ago(run.moved_at, now_ms)]);
  shown.push(...rewardWords(run, run.verdicts));
  const failed = Object.values(run.failures ?? {}).reduce((/** @type {number} */ sum, count) => sum + Number(count), 0);
  if (failed) shown.push([String(failed), `failed${run.again ? `, ${run.again} retried` : ""}`]);
  return shown;
}

/** How good a member is among its siblings, from -2 to 2; 0 where nothing is known. @param {any} member */
export function goodness(member) {
  if (typeof member.advantage !== "number" || member.advantage === 0) return 0;
  return Math.sign(member.advantage) * (Math.abs(member.advantage) > 0.8 ? 2 : 1);
}

/**
 * The groups that are wanted, in order.
 * @param {Record<string, any>} groups @param {Record<string, string>} wanted @returns {[string, any][]}
 */
export function chosen(groups, wanted) {
  const text = wanted.text.trim().toLowerCase();
  const found = Object.entries(groups).filter(([name, group]) => {
    if (wanted.standing === "same" ? !(group.usable > 1 && group.spread === 0) : wanted.standing && group.state !== wanted.standing) return false;
    return !text || name.toLowerCase().includes(text) || Object.keys(group.members).some((id) => id.toLowerCase().includes(text));
  });
  /** @type {Record<string, (a: [string, any], b: [string, any]) => number>} */
  const by = {
    newest: (a, b) => (a[0] < b[0] ? 1 : -1),
    worst: (a, b) => (a[1].mean ?? Infinity) - (b[1].mean ?? Infinity),
    best: (a, b) => (b[1].mean ?? -Infinity) - (a[1].mean ?? -Infinity),
    spread: (a, b) => (b[1].spread ?? -1) - (a[1].spread ?? -1),
  };
  return found.sort(by[wanted.order] ?? ((a, b) => (a[0] < b[0] ? -1 : 1)));
}
