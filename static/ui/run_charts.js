// @ts-check
// What the charts of a run show: its series along one axis, alone or with another run's, and its distributions; pure.

import { figure, many, percent } from "./run_words.js";
import { exactCost, plural, words } from "./text.js";

/** @typedef {import("../charts/plot.js").PlotSpec} PlotSpec */
/** @typedef {{name: string, series: any}} Charted a run's name and series */

export const AXES = { weight_version: "weight version", episodes: "finished episodes" };

/** The axis that is used unless another one is asked for. @param {any} series @returns {keyof typeof AXES} */
export const usualAxis = (series) => (Object.keys(series?.weight_version?.points ?? {}).length > 1 ? "weight_version" : "episodes");

/** What a point covers, in words. @param {any} point @param {string} axis */
export function placeWords(point, axis) {
  const range = point.first === point.last ? point.first : `${point.first} to ${point.last}`;
  return axis === "episodes" ? `${point.first === point.last ? "episode" : "episodes"} ${range}` : point.first === point.last ? `version ${range}` : `versions ${range}`;
}

const share = (/** @type {number | undefined} */ some, /** @type {number | undefined} */ all) => (all ? (some ?? 0) / all : null);
const known = (/** @type {any} */ value) => (typeof value === "number" ? value : null);
const withError = (/** @type {any} */ value, /** @type {any} */ error, /** @type {(value: any) => string} */ show) => `${show(value)}${typeof error === "number" ? ` ± ${show(error)}` : ""}`;
const rounded = (/** @type {number} */ value) => (value >= 100 ? Math.round(value).toLocaleString("en") : figure(Math.round(value * 10) / 10));

/**
 * The charts along an axis. `value` and `error` read a point, `said` says it, `head` and `cells` are its row in the table.
 * @type {Record<string, {title: string, tall?: boolean, y: string, least?: number, most?: number, show: (value: number) => string, value: (point: any) => number | null, error?: (point: any) => number | null, said: (point: any) => string, head: string[], cells: (point: any) => (string | number)[], empty: string}>}
 */
export const CHARTS = {
  reward: {
    title: "Mean reward", tall: true, y: "mean reward", show: figure, value: (point) => known(point.mean), error: (point) => known(point.error),
    said: (point) => `${withError(point.mean, point.error, figure)} over ${plural(point.verdicts, "episode")}, own share ${percent(point.own_share)}`,
    head: ["mean reward", "standard error", "episodes with a reward", "own share", "penalised", "failed"],
    cells: (point) => [figure(point.mean), figure(point.error), point.verdicts, percent(point.own_share), point.penalised, point.failed], empty: "No reward yet.",
  },
  own: {
    title: "Own share of decisions", y: "own share", least: 0, most: 1, show: percent, value: (point) => known(point.own_share),
    said: (point) => `${percent(point.own_share)} of ${plural(point.decisions, "decision")}`,
    head: ["own share", "decisions"], cells: (point) => [percent(point.own_share), point.decisions], empty: "Not recorded in this run.",
  },
  refused: {
    title: "Refused answers per decision", y: "per decision", least: 0, most: 0.1, show: figure, value: (point) => share(point.refusals, point.decisions),
    said: (point) => `${figure(share(point.refusals, point.decisions))} (${point.refusals} refused in ${plural(point.decisions, "decision")}), ${plural(point.penalised, "episode")} penalised`,
    head: ["refused", "decisions", "penalised episodes"], cells: (point) => [point.refusals, point.decisions, point.penalised], empty: "Not recorded in this run.",
  },
  cut: {
    title: "Episodes cut short", y: "share", least: 0, most: 0.1, show: percent, value: (point) => share(point.cut, point.over),
    said: (point) => `${percent(share(point.cut, point.over))} (${point.cut} of ${plural(point.over, "episode")})${point.cut_replies ? `; ${point.cut_replies} of ${plural(point.replies, "reply", "replies")} at the token limit` : ""}`,
    head: ["cut short", "episodes", "replies at the token limit", "replies"], cells: (point) => [point.cut, point.over, point.cut_replies, point.replies], empty: "No episode has finished yet.",
  },
  tokens: {
    title: "Reply tokens per episode", y: "tokens", least: 0, show: many, value: (point) => known(point.tokens_mean), error: (point) => known(point.tokens_error),
    said: (point) => `${withError(point.tokens_mean, point.tokens_error, rounded)} over ${plural(point.tokens_of, "episode")}, ${percent(share(point.cut_replies, point.replies))} of replies at the token limit`,
    head: ["mean reply tokens", "standard error", "episodes", "prompt tokens in all", "reply tokens in all"],
    cells: (point) => [figure(point.tokens_mean), figure(point.tokens_error), point.tokens_of, point.tokens_in ?? "", point.tokens_out ?? ""], empty: "The endpoint reported no tokens.",
  },
  entropy: {
    title: "Entropy", y: "nats per token", least: 0, show: figure, value: (point) => known(point.entropy),
    said: (point) => `${figure(point.entropy)} nats per token, by ${plural(point.logprob_tokens, "sampled token")}`,
    head: ["nats per token", "sampled tokens"], cells: (point) => [figure(point.entropy), point.logprob_tokens], empty: "Needs log probabilities: play the run with --tokens.",
  },
};

/**
 * One chart of one run, or of two on the same axes.
 * @param {string} key of `CHARTS` @param {Charted[]} runs @param {keyof typeof AXES} axis @returns {PlotSpec}
 */
export function chartOf(key, runs, axis) {
  const { y, least, most, show, value, error, said, head, cells, empty } = CHARTS[key];
  const along = runs.map(({ name, series }, index) => ({ name, second: index > 0, series: series?.[axis] })).filter(({ series }) => series);
  const numbered = axis === "episodes" || along.every(({ series }) => series.numbered);
  const lines = along.map(({ name, second, series }) => ({
    name, second,
    points: Object.values(series.points).map((point, index) => ({
      x: numbered ? point.at : (index + 1) * series.step, y: value(point), error: error?.(point),
      said: `${placeWords(point, axis)}: ${value(point) === null ? "unknown" : said(point)}`, row: [placeWords(point, axis), ...cells(point)],
    })),
  })).filter(({ points }) => points.some((one) => one.y !== null));
  const x = numbered ? AXES[axis] : `${AXES[axis]}, in order`;
  return { lines, counted: true, x, y, least, most, show, head: [AXES[axis], ...head], empty };
}

/**
 * A distribution over episodes.
 * @param {{least: number, most: number, counts: number[], whole?: boolean} | null | undefined} data @param {string} x what is counted @param {string} meaning such as "earned" @param {string} empty
 * @returns {PlotSpec}
 */
export function histogram(data, x, meaning, empty) {
  const { least = 0, most = 0, counts = [], whole = false } = data ?? {};
  const wide = whole ? 1 : (most - least) / counts.length || 1;
  const unit = (/** @type {number} */ index) => (x === "reward" ? "" : whole && least + index === 1 ? ` ${x.slice(0, -1)}` : ` ${x}`);
  const range = (/** @type {number} */ index) => (whole ? figure(least + index) : `${figure(least + index * wide)} to ${figure(least + (index + 1) * wide)}`);
  const points = counts.map((count, index) => ({ x: whole ? least + index : least + (index + 0.5) * wide, y: count, said: `${plural(count, "episode")} ${meaning} ${range(index)}${unit(index)}`, row: [range(index), count] }));
  return { lines: data ? [{ name: "", points }] : [], bars: true, counted: whole, x, y: "episodes", least: 0, whole: true, show: many, head: [x, "episodes"], empty };
}

/** The settings of a configuration by their names, nested ones joined with a dot. @param {any} value @param {string} [name] @returns {[string, string][]} */
export function settings(value, name = "") {
  if (value && typeof value === "object" && !Array.isArray(value)) return Object.entries(value).flatMap(([key, one]) => settings(one, name ? `${name}.${key}` : key));
  return value === null || value === undefined ? [] : [[name, typeof value === "string" ? value : JSON.stringify(value)]];
}

/** The settings that matter most, in a few words. @param {any} configuration */
export function settingWords({ sampling = {}, options = {}, ...rest } = {}) {
  const named = ["temperature", "top_p", "max_tokens"].filter((key) => key in sampling).map((key) => `${words(key)} ${sampling[key]}`);
  const played = Object.entries(options).slice(0, 3).filter(([, value]) => typeof value !== "object").map(([key, value]) => `${words(key)} ${value}`);
  return [sampling.model, ...named, ...played, rest.on_invalid ? `invalid answers: ${rest.on_invalid}` : ""].filter(Boolean).join(" · ");
}

/** What a run's charts cannot show, and why. @param {any} run @returns {string[]} */
export function missing(run) {
  const said = [];
  if (run.uncounted) said.push(`Reading model calls: ${plural(run.uncounted, "episode")} left.`);
  const versions = run.series?.weight_version;
  if (run.over && !run.uncounted && !versions) said.push("No weight versions are recorded.");
  if (versions?.unversioned) said.push(`${plural(versions.unversioned, "episode")} without a weight version.`);
  const mixed = Object.values(versions?.points ?? {}).reduce((/** @type {number} */ sum, point) => sum + (point.mixed ?? 0), 0);
  if (mixed) said.push(`${plural(mixed, "episode")} written by several versions, counted under the last.`);
  if (run.tokens_estimated) said.push("Some token counts are estimates.");
  return said;
}

/** Tokens and cost of a run. @param {any} run @returns {[string, string][]} */
export function costWords(run) {
  /** @type {[string, string][]} */ const said = [];
  if (typeof run.tokens_out === "number") said.push([many(run.tokens_out), `reply tokens${typeof run.tokens_in === "number" ? `, ${many(run.tokens_in)} prompt tokens` : ""}`]);
  if (typeof run.entropy === "number") said.push([figure(run.entropy), "nats of entropy per token"]);
  if (typeof run.cost === "number") said.push([exactCost(run.cost), "cost"]);
  return said;
}
