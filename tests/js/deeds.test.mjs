// What captains said against what they did, over by over.

import assert from "node:assert/strict";
import { test } from "node:test";

import { keptTo, offPlan, oversOf } from "../../spectator/environments/cricket/panel/deeds.js";
import { deedOf } from "../../spectator/environments/cricket/panel/plans.js";

const CARDS = { 1: { balls: 120 }, 2: { balls: 120 } };
const END = { innings: 9, over: 1, delivery: 1 };
const ball = (over, number, changes = {}, intents = {}) => ({ note: deedOf({ type: "cricket.ball_bowled", data: {
  innings: 1, side: "home", over, ball: number, delivery: number, bowler: "A. Khan", length: "good", runs: 1, dismissal: null, powerplay: over < 6, ...changes,
  intents: { aggression: 0.5, attack: 0.5, length: null, field: "standard", ...intents } } }) });
const plan = (side, part, said) => ({ note: deedOf({ type: "cricket.plan_changed", data: { side, part, plan: said } }) });
const overStarts = { note: deedOf({ type: "cricket.over_started", data: { innings: 1, over: 0 } }) };
const levels = (level) => Object.fromEntries(["batting", "bowling"].flatMap((role) => ["powerplay", "middle", "death"].map((phase) => [`${role}_${phase}`, level])));

test("what is kept of a match are plans, beginnings of overs and balls", () => {
  assert.equal(deedOf({ type: "cricket.wicket_fell", data: {} }), null);
  assert.deepEqual(oversOf([], {}, END), []);
});

test("an over is the mean of its balls beside the plan that bound it", () => {
  const [over] = oversOf([plan("home", "match_plan", levels(0.6)), overStarts, ball(0, 1, {}, { aggression: 0.8 }), ball(0, 2, { runs: 4, dismissal: null }, { aggression: 1 })], CARDS, END);
  assert.deepEqual([over.innings, over.over, over.phase, over.balls, over.runs, over.wickets], [1, 1, "powerplay", 2, 5, 0]);
  assert.ok(Math.abs(over.bat.level - 0.9) < 1e-9 && Math.abs(over.bat.plan - 0.6) < 1e-9 && offPlan(over.bat));
  assert.equal(over.bowl.plan, null);
  assert.equal(offPlan(over.bowl), false);
});

test("a plan that changes within an over binds from the next one on; the first of all at once", () => {
  const overs = oversOf([overStarts, plan("away", "match_plan", levels(0.2)), ball(0, 1), plan("away", "match_plan", { ...levels(0.9), summary: "go for wickets" }), ball(0, 2), overStarts, ball(1, 1)], CARDS, END);
  assert.deepEqual(overs.map((over) => over.bowl.plan), [0.2, 0.9]);
  assert.deepEqual(overs.map((over) => over.bowl.replanned), ["go for wickets", ""]);
});

test("orders name who bowls the overs ahead, and stand until there are others", () => {
  const notes = [plan("away", "bowling", { attack: 0.7, bowlers: ["A. Khan", "B. Roy"], note: "yorkers now" }), overStarts, ball(0, 1, { length: "yorker" }, { length: "yorker", attack: 0.7 }), ball(0, 2, {}, { length: "yorker", attack: 0.7 }), overStarts, ball(1, 1, { bowler: "C. Das" }), overStarts, ball(2, 1)];
  const overs = oversOf(notes, CARDS, END);
  assert.deepEqual(overs.map((over) => [over.named, over.bowlers[0], over.bowl.fresh]), [["A. Khan", "A. Khan", true], ["B. Roy", "C. Das", false], ["", "A. Khan", false]]);
  assert.deepEqual(overs[0].lengths, [{ length: "yorker", asked: 2, hit: 1 }]);
  assert.equal(overs[2].bowl.order.note, "yorkers now");
});

test("nothing later than the ball that is shown is told", () => {
  const notes = [ball(0, 1), ball(0, 2), ball(0, 3, { dismissal: "bowled" }), ball(1, 1), ball(0, 1, { innings: 2, side: "away" })];
  const told = (until) => oversOf(notes, CARDS, until).map((over) => [over.innings, over.over, over.balls]);
  assert.deepEqual(told({ innings: 1, over: 1, delivery: 2 }), [[1, 1, 2]]);
  assert.deepEqual(told({ innings: 1, over: 2, delivery: 0 }), [[1, 1, 3]]);
  assert.deepEqual(told({ innings: 2, over: 1, delivery: 1 }), [[1, 1, 3], [1, 2, 1], [2, 1, 1]]);
  assert.deepEqual(told({ innings: 0, over: 0, delivery: 0 }), []);
});

test("the chance and the calls are summed over the balls of an over", () => {
  const swing = (change, batted, bowled) => ({ note: { change, batting: "home", batted, bowled } });
  const [first, second] = oversOf([swing(0.9, 1, 1), ball(0, 1), swing(0.02, 0.01, -0.03), ball(0, 2), swing(-0.05, 0.01, 0.01), ball(1, 1)], CARDS, END);
  assert.ok(Math.abs(first.change + 0.03) < 1e-9 && Math.abs(first.worth.home - 0.02) < 1e-9 && Math.abs(first.worth.away + 0.02) < 1e-9);
  assert.equal(second.change, null);
});

test("how near a side kept to its plan counts the balls that one covers, whichever way it left it", () => {
  const overs = oversOf([overStarts, ball(0, 1), plan("home", "match_plan", levels(0.5)), overStarts, ball(1, 1, {}, { aggression: 0.3 }), ball(1, 2, {}, { aggression: 0.7 }), overStarts, ball(16, 1, {}, { aggression: 0.5 })], CARDS, END);
  const { kept, balls, left, overs: covered } = keptTo(overs, "home");
  assert.deepEqual([Math.round(kept * 1000), balls, left, covered, overs[2].phase], [867, 3, 1, 2, "death"]);
  assert.equal(keptTo(overs, "away"), null);
});
