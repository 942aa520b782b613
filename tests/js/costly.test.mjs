import assert from "node:assert/strict";
import { test } from "node:test";

import { newDecision } from "../../static/live/decisions.js";
import { gainText, isSure } from "../../static/ui/alternatives.js";
import { costly, nextCostly } from "../../static/ui/costly.js";

const made = (seq, points) => ({ ...newDecision(seq, seq, { actor: "a", source: "model", action: { tool: "go" } }), points });
const all = [made(3, -0.5), made(5, 0.9), made(8, null), made(9, -0.2), made(12, -0.19), made(20, -1.4)];

test("only what lost a fifth of a point or more is gone to", () => {
  assert.deepEqual(costly(all).map((one) => one.seq), [3, 9, 20]);
});

test("the next one is the first beyond where one stands, either way, and none after the last", () => {
  const at = (seq, by) => { const found = nextCostly(all, seq, by); return found && [found.made.seq, found.number, found.count]; };
  assert.deepEqual(at(0, 1), [3, 1, 3]);
  assert.deepEqual(at(3, 1), [9, 2, 3]);
  assert.deepEqual(at(20, 1), null);
  assert.deepEqual(at(20, -1), [9, 2, 3]);
  assert.deepEqual(at(3, -1), null);
  assert.equal(nextCostly([], 4, 1), null);
});

test("a gain has a sign where it is one, and is sure beyond its error", () => {
  assert.deepEqual([0.0124, -0.0003, 0.00001, -0.00001].map(gainText), ["+1.24", "−0.03", "0.00", "0.00"]);
  assert.equal(isSure({ gain: 0.01, gain_error: 0.004 }), true);
  assert.equal(isSure({ gain: -0.01, gain_error: 0.006 }), false);
});
