// The chance to win, ball by ball, and the balls that moved it most.

import assert from "node:assert/strict";
import { test } from "node:test";

import { countLarge, pointsOf, swings } from "../../spectator/environments/cricket/panel/chances.js";
import { explained, partsOf, swingOf, whyWords } from "../../spectator/environments/cricket/panel/why.js";

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

const teams = { home: { name: "Lions" }, away: { name: "Bears" } };
const swing = { innings: 2, delivery: 9, at: "1.3", mark: "W", batting: "home", change: -0.2, error: 0.01, batted: -0.03, bowled: 0.01 };

test("the parts of a swing add up to it: both captains' calls, and how the ball came out", () => {
  const parts = partsOf(swing);
  assert.deepEqual([parts.gains, parts.loses, parts.sure], ["away", "home", true]);
  assert.ok(Math.abs(parts.own - 0.01) < 1e-9 && Math.abs(parts.others - 0.03) < 1e-9 && Math.abs(parts.luck - 0.16) < 1e-9);
  const other = partsOf({ ...swing, change: 0.06, error: 0.03 });
  assert.deepEqual([other.gains, other.own, other.others, other.sure], ["home", -0.03, -0.01, false]);
});

test("a swing is explained in a sentence", () => {
  assert.equal(whyWords(swing, teams), "Bears +20: Bears’ call +1.0, Lions’ call +3.0, how the wicket came out +16.0.");
  assert.equal(whyWords({ ...swing, batted: 0, bowled: 0, mark: "·" }, teams), "Bears +20: all of it from how the dot ball came out; both captains called as usual.");
});

test("large swings are counted from the chances alone, as the explained ones are", () => {
  const point = (delivery, home, se = 0.01) => ({ innings: 1, delivery, home, se });
  assert.equal(countLarge([], { innings: 2, delivery: 0 }), 0);
  assert.equal(countLarge([point(0, 0.5), point(1, 0.56), point(2, 0.52), point(3, 0.4)], { innings: 2, delivery: 0 }), 2);
  assert.equal(countLarge([point(5, 0.5), point(0, 0.7), point(1, 0.9)], { innings: 2, delivery: 0 }), 1, "the first of an innings explains no ball");
  assert.equal(countLarge([point(1, 0.5, 0.03), point(2, 0.6, 0.03)], { innings: 2, delivery: 0 }), 0, "within the error");
});

test("only swings of five points and more are explained, and none from after where one stands", () => {
  const before = { world: { forecast: { home: 0.5, se: 0.01 }, last_ball: { at: "1.3", mark: "6" } } };
  const note = (delivery, home, innings = 1) => ({ seq: delivery, note: swingOf({ type: "cricket.forecast", data: { innings, delivery, batting: "home", home, se: 0.01, batting_value: 0, bowling_value: 0 } }, before) });
  const notes = [note(1, 0.6), note(2, 0.52), note(3, 0.44), note(4, 0.9), note(1, 0.3, 2)];
  assert.deepEqual(explained(notes, { innings: 1, delivery: 3 }).map((one) => one.delivery), [3, 1]);
  assert.equal(explained(notes, { innings: 2, delivery: 1 }).length, 4);
  assert.equal(explained(notes.map(({ seq, note: one }) => ({ seq, note: { ...one, error: 0.05 } })), { innings: 2, delivery: 1 }).length, 2);
  assert.equal(swingOf({ type: "cricket.forecast", data: { delivery: 0 } }, before), null);
  assert.equal(swingOf({ type: "cricket.forecast", data: { delivery: 1 } }, {}), null);
  assert.equal(swingOf({ type: "step.taken", data: {} }, before), null);
});
