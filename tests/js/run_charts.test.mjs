import assert from "node:assert/strict";
import { test } from "node:test";

import { span } from "../../static/charts/charts.js";
import { chartOf, CHARTS, costWords, histogram, missing, placeWords, settings, settingWords, usualAxis } from "../../static/ui/run_charts.js";
import { many } from "../../static/ui/run_words.js";

const point = (at, mean, more = {}) => ({ at, first: `step-${at}`, last: `step-${at}`, over: 8, verdicts: 6, mean, error: 0.25, own_share: 0.5, decisions: 20, refusals: 3, penalised: 1, cut: 2, failed: 0, replies: 24, cut_replies: 6, ...more });
const series = { episodes: { step: 8, points: { 0: point(8, 0.5, { first: "1", last: "8" }), 1: point(16, undefined, { first: "9", last: "16" }) } }, weight_version: { step: 1, numbered: true, unversioned: 3, points: { 0: point(10, 0.5), 1: point(200, -1, { mixed: 2 }) } } };

test("round numbers cover a span, also around a single value and below zero", () => {
  assert.deepEqual(span(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(span(-33.1, 1.5, 4), [-40, -30, -20, -10, 0, 10]);
  assert.deepEqual(span(1, 3, 5, true), [1, 2, 3]);
  for (const [least, most] of [[0, 0], [7, 7], [-0.2, -0.2], [1e-9, 2e-9], [-5, 1e6]]) {
    const found = span(least, most);
    assert.ok(found.length >= 2 && found[0] <= least && found.at(-1) >= most && found.every(Number.isFinite), `${least} to ${most}: ${found}`);
  }
});

test("a chart shows its series along an axis, with a gap where nothing is known", () => {
  const { lines, x, head } = chartOf("reward", [{ name: "a", series }], "episodes");
  assert.deepEqual(lines[0].points.map(({ x: at, y, error }) => [at, y, error]), [[8, 0.5, 0.25], [16, null, 0.25]]);
  assert.equal(lines[0].points[0].said, "episodes 1 to 8: 0.5 ± 0.25 over 6 episodes, own share 50\u00a0%");
  assert.equal(lines[0].points[1].said, "episodes 9 to 16: unknown");
  assert.deepEqual([x, head.length], ["finished episodes", lines[0].points[0].row.length]);
  for (const key of Object.keys(CHARTS)) for (const { row } of chartOf(key, [{ name: "a", series }], "weight_version").lines.flatMap(({ points }) => points)) assert.equal(row.length, 1 + CHARTS[key].head.length);
});

test("two runs share the axes; versions without numbers are in order", () => {
  const named = { weight_version: { step: 2, numbered: false, points: { 0: point(2, 1), 1: point(3, 1) } } };
  assert.deepEqual(chartOf("reward", [{ name: "a", series }, { name: "b", series }], "weight_version").lines.map(({ points }) => points.map(({ x }) => x)), [[10, 200], [10, 200]]);
  const both = chartOf("reward", [{ name: "a", series }, { name: "b", series: named }], "weight_version");
  assert.deepEqual(both.lines.map(({ points }) => points.map(({ x }) => x)), [[1, 2], [2, 4]]);
  assert.equal(both.x, "weight version, in order");
  assert.deepEqual(chartOf("reward", [{ name: "a", series }, { name: "b", series: {} }], "weight_version").lines.map(({ name }) => name), ["a"]);
  assert.deepEqual(chartOf("entropy", [{ name: "a", series }], "episodes").lines, []);
  assert.deepEqual([usualAxis(series), usualAxis({ episodes: {} }), usualAxis(undefined)], ["weight_version", "episodes", "episodes"]);
  assert.deepEqual([placeWords(point(3, 1), "weight_version"), placeWords({ first: "a", last: "b" }, "weight_version"), placeWords({ first: "7", last: "7" }, "episodes")], ["version step-3", "versions a to b", "episode 7"]);
});

test("bars say what they count", () => {
  const turns = histogram({ least: 1, most: 2, counts: [1, 4], whole: true }, "turns", "took", "-").lines[0].points;
  assert.deepEqual(turns.map(({ x, y, said }) => [x, y, said]), [[1, 1, "1 episode took 1 turn"], [2, 4, "4 episodes took 2 turns"]]);
  const rewards = histogram({ least: 0, most: 1, counts: [1, 0] }, "reward", "earned", "-").lines[0].points;
  assert.deepEqual(rewards.map(({ said }) => said), ["1 episode earned 0 to 0.5", "0 episodes earned 0.5 to 1"]);
  assert.deepEqual(histogram(null, "turns", "took", "-").lines, []);
});

test("what a run's figures lack and what it cost is said", () => {
  assert.deepEqual(missing({ series, over: 19 }), ["3 episodes without a weight version.", "2 episodes written by several versions, counted under the last."]);
  assert.deepEqual(missing({ series: { episodes: {} }, over: 1, tokens_estimated: true }), ["No weight versions are recorded.", "Some token counts are estimates."]);
  assert.deepEqual([missing({ uncounted: 12, over: 20 }), missing({})], [["Reading model calls: 12 episodes left."], []]);
  assert.deepEqual(costWords({ tokens_in: 1_234_567, tokens_out: 870, entropy: 0.5, cost: 0.42 }), [["870", "reply tokens, 1.23M prompt tokens"], ["0.5", "nats of entropy per token"], ["US$0.42", "cost"]]);
  assert.deepEqual([costWords({}), [999, 15_850, 2e6].map(many)], [[], ["999", "15.85k", "2M"]]);
});

test("settings are flat, and the main ones are in a line", () => {
  const configuration = { options: { turns: 3, deep: { a: [1] } }, on_invalid: "mask", sampling: { model: "m", top_p: 0.9 }, pack: null };
  assert.deepEqual(settings(configuration), [["options.turns", "3"], ["options.deep.a", "[1]"], ["on_invalid", "mask"], ["sampling.model", "m"], ["sampling.top_p", "0.9"]]);
  assert.equal(settingWords(configuration), "m · top p 0.9 · turns 3 · invalid answers: mask");
  assert.deepEqual([settings(undefined), settingWords(undefined)], [[], ""]);
});
