import assert from "node:assert/strict";
import test from "node:test";

import { makeFlight } from "../../spectator/environments/cricket/panel/flight.js";

test("a ball travels as long as balls are far apart, and not where nothing may move", () => {
  let at = 0;
  const flight = makeFlight(() => at);
  flight.take(undefined, true);
  assert.equal(flight.took, 0);
  at = 10_000;
  flight.take(5, true);
  assert.deepEqual([flight.took, flight.left], [900, 900]);
  at += 600;
  flight.take(5, true);
  assert.deepEqual([flight.took, flight.left], [900, 300]);
  at += 1_400;
  assert.equal(flight.left, 0);
  flight.take(9, true);
  assert.equal(flight.took, 600);
  at += 300;
  flight.take(12, true);
  assert.equal(flight.took, 0, "balls that come fast are told at once");
  at += 5_000;
  flight.take(15, false);
  assert.deepEqual([flight.took, flight.left], [0, 0]);
});
