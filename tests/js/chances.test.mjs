// The chance to win, ball by ball, and the balls that moved it most.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pointsOf, swings } from "../../spectator/environments/cricket/panel/chances.js";

const chances = {
  2: { "001": { home: 0.9, at: "0.1", mark: "W" }, "010": { home: 0.2, at: "1.3", mark: "6" } },
  1: { "002": { home: 0.52, at: "0.2", mark: "·" }, "001": { home: 0.5, at: "0.1", mark: "1" } },
};

test("the balls stand in the order in which they were bowled", () => {
  assert.deepEqual(pointsOf(chances).map((point) => [point.innings, point.at]), [[1, "0.1"], [1, "0.2"], [2, "0.1"], [2, "1.3"]]);
  assert.deepEqual(pointsOf(undefined), []);
});

test("the largest swings come first, and what hardly moved is not named", () => {
  const told = swings(pointsOf(chances));
  assert.deepEqual(told.map((swing) => [swing.innings, swing.at, swing.mark, Math.round(swing.change * 100)]), [[2, "1.3", "6", -70], [2, "0.1", "W", 38]]);
  assert.deepEqual(swings([]), []);
  assert.deepEqual(swings([{ innings: 1, home: 1 }]), []);
});

test("a change within the error of its two forecasts is no turning point", () => {
  const points = [{ innings: 1, home: 0.5, se: 0.03 }, { innings: 1, home: 0.6, se: 0.03 }];
  assert.deepEqual(swings(points), []);
  assert.equal(swings(points.map((point) => ({ ...point, se: 0.01 }))).length, 1);
});
