// The line of chances in a tile, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { markAt, pointsOf } from "../../static/ui/chance_line.js";

const whole = { count: 5, every: 1, percent: { 0: [50, 60], 1: [40, 40, 90] } };

test("the line reaches as far as the episode has come, and ends at the newest chance", () => {
  const points = pointsOf(whole, 0.9, 0.5);
  assert.deepEqual(points[0], [0, 50]);
  assert.deepEqual(points[1], [50, 40]);
  const [x, y] = points.at(-1);
  assert.equal(x, 200);
  assert.ok(Math.abs(y - 10) < 1e-9);
  assert.deepEqual(pointsOf({ count: 1, every: 1, percent: { 0: [70] } }, 0.7, 0).map(([at]) => at), [0, 0]);
});

test("parts come in their order, also the eleventh", () => {
  const percent = Object.fromEntries(Array.from({ length: 12 }, (_, part) => [part, [part]]));
  assert.deepEqual(pointsOf({ count: 12, every: 1, percent }, 0.11, 1).slice(0, 12).map(([, y]) => 100 - y), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test("a mark stands on the line, also between the points that are told", () => {
  const points = pointsOf(whole, 0.9, 1);
  assert.deepEqual([0, 1, 2, 4].map((place) => markAt(points, whole, place)).map(([x]) => x), [0, 100, 200, 400]);
  assert.deepEqual(markAt(points, whole, 1), [100, 40]);
  const thin = { count: 5, every: 2, percent: { 0: [50, 40, 90] } };
  const [x, y] = markAt(pointsOf(thin, 0.9, 1), thin, 1);
  assert.deepEqual([x, y], [100, 55]);
});
