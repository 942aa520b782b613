import assert from "node:assert/strict";
import { test } from "node:test";

import { realPoints } from "../../spectator/environments/cricket/panel/chances.js";
import { realRows } from "../../spectator/environments/cricket/panel/real.js";

const REAL = {
  lines: { 1: [[8, 0], [13, 1]] },
  batting: { 1: "home" },
  prices: [{ innings: 1, over: 2, bowler: "A Quick", runs: 5, wickets: 1, before: 0.4, best_bowler: "B Slow", best: 0.42, error: 0.01, after: 0.5 }],
};

test("the real overs stand beside those played here, with the home side's chances", () => {
  const world = {
    real: REAL,
    scorecards: { 1: { overs: { 1: { runs: 8, wickets: 0, score: 8 }, 2: { runs: 1, wickets: 2, score: 9 } } } },
    chances: { 1: { "009": { home: 0.55, at: "1.3" }, "012": { home: 0.3, at: "1.6" } } },
  };
  assert.deepEqual(realRows(world, "1"), [
    [1, "8-0", "8-0", "–", "–", "–", "–", "–", "–"],
    [2, "13-1", "9-2", "50", "30", "A Quick", "B Slow", "−2.0", "+10.0"],
  ]);
});

test("overs that were not played here, or not really, are dashes", () => {
  assert.deepEqual(realRows({ real: { lines: REAL.lines } }, "1").map((row) => row.slice(0, 3)), [[1, "8-0", "–"], [2, "13-1", "–"]]);
  assert.deepEqual(realRows({}, "1"), []);
});

test("the real chance stands at the last ball of an over that is played here too", () => {
  const points = [{ innings: 1, home: 0.5 }, { innings: 1, at: "1.5", home: 0.5 }, { innings: 1, at: "1.6", home: 0.5 }, { innings: 1, at: "2.1", home: 0.5 }];
  assert.deepEqual(realPoints(points, REAL), [{ index: 2, home: 0.5 }]);
  assert.deepEqual(realPoints(points.slice(3), REAL), []);
  assert.deepEqual(realPoints(points, { lines: {} }), []);
});
