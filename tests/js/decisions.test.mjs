import assert from "node:assert/strict";
import { test } from "node:test";

import { weight, worths } from "../../spectator/environments/cricket/panel/weights.js";
import { foreignWords, newDecision, pointsText, stretches, wanted } from "../../static/live/decisions.js";
import { SILENT } from "../../static/live/ledger.js";
import { heaviest } from "../../static/live/moments.js";
import { Timeline } from "../../static/live/timeline.js";
import { event } from "./builders.mjs";

const made = (seq, actor, source, changes = {}) => ({ ...newDecision(seq, seq, { actor, source, action: { tool: "go" } }), ...changes });

test("a decision that is not its seat's own says why in words", () => {
  assert.equal(foreignWords({ source: "model" }, "model"), "");
  assert.equal(foreignWords({ source: "heuristic" }, "heuristic"), "");
  assert.equal(foreignWords({ source: "fallback", failure_class: "timeout" }, "model"), "made by the fallback: no answer in time");
  assert.equal(foreignWords({ source: "fallback" }, "human"), "made by the fallback");
  assert.equal(foreignWords({ source: "human" }, "model"), "not the model’s: person");
});

test("decisions are found by seat, tool, source, worth and refusal, the newest first", () => {
  const all = [made(1, "a", "model", { points: 2 }), made(2, "b", "fallback", { points: -1 }), made(3, "a", "model", { points: 0.01, refused: { rule: "r", message: "m" } }), made(4, "a", "model", { tool: "say" })];
  const ask = (changes) => wanted(all, { seat: "", tool: "", source: "", worth: "", ...changes }).map((one) => one.seq);
  assert.deepEqual(ask({}), [4, 3, 2, 1]);
  assert.deepEqual(ask({ seat: "a" }), [4, 3, 1]);
  assert.deepEqual(ask({ tool: "say" }), [4]);
  assert.deepEqual(ask({ source: "fallback" }), [2]);
  assert.deepEqual(ask({ worth: "gained" }), [1]);
  assert.deepEqual(ask({ worth: "lost" }), [2]);
  assert.deepEqual(ask({ worth: "refused", seat: "a" }), [3]);
  assert.deepEqual(all.map((one) => one.seq), [1, 2, 3, 4]);
});

test("worth is signed with one decimal, and what is shown as nothing has no sign", () => {
  assert.deepEqual([1.26, -0.4, -0.04, 0, null].map(pointsText), ["+1.3", "−0.4", "0.0", "0.0", ""]);
});

test("a beat in which anything was made for the seat is the fallback's, and alike beats are one stretch", () => {
  const all = [made(1, "a", "model"), made(2, "b", "human"), made(3, "a", "fallback"), made(4, "a", "model"), made(9, "a", "model"), made(12, "a", "model")];
  const stop = (seq) => Math.floor(seq / 3);
  assert.deepEqual(stretches(all, "a", stop), [{ source: "model", from: 0, to: 0 }, { source: "fallback", from: 0, to: 1 }, { source: "model", from: 1, to: 4 }]);
  assert.deepEqual(stretches([], "a", stop), []);
});

test("a timeline notes decisions, what they were worth, and refusals; a late joiner knows the newest of each seat", () => {
  const timeline = new Timeline();
  timeline.reading = { ...SILENT, worths: ({ type }) => (type === "world.worth" ? [{ actor: "a", points: 1.5 }, { actor: "nobody", points: 9 }] : []) };
  const decided = (seq, actor) => event(seq, { type: "decision.made", data: { actor, source: "model", action: { tool: "go" } } });
  for (const one of [decided(1, "a"), decided(2, "b"), event(3, { type: "world.worth" }), event(4, { type: "world.worth" }), event(5, { type: "action.refused", data: { actor: "b", rule: "r", message: "m" } })]) timeline.push(one);
  assert.deepEqual(timeline.decisions.map((one) => [one.seq, one.actor, one.points, one.refused?.rule]), [[1, "a", 3, undefined], [2, "b", null, "r"]]);
  const late = new Timeline();
  late.reset("e1", 9, { decisions: { b: { seq: 7, turn: 3, actor: "b", source: "human", action: {} }, a: { seq: 4, turn: 2, actor: "a", source: "model", action: {} } } });
  assert.deepEqual(late.decisions.map((one) => one.seq), [4, 7]);
});

test("at most ten moments are marked: the heaviest, one a stop, by the line that must most be heard", () => {
  const moment = (seq, kind = "big") => ({ seq, kind, label: `m${seq}`, at: "", text: "" });
  const lines = Array.from({ length: 60 }, (_, index) => moment(index));
  assert.equal(heaviest(lines, null, (seq) => seq).length, 10);
  const stop = (seq) => Math.floor(seq / 10);
  const marked = heaviest([moment(1), moment(2, "turning"), moment(21), moment(45)], [[1, 3], [22, 1], [3, 1], [47, 9], [55, 2]], stop);
  assert.deepEqual(marked.map((one) => [one.seq, one.label]), [[2, "m2"], [21, "m21"], [45, "m45"], [55, ""]]);
  assert.deepEqual(heaviest([], [], stop), []);
});

test("cricket weighs what is surely a swing, wickets by who is out, and the result above all", () => {
  const forecast = (home, se, delivery = 9) => weight({ type: "cricket.forecast", data: { home, se, delivery } }, { world: { forecast: { home: 0.5, se: 0.01 } } });
  assert.ok(Math.abs(forecast(0.62, 0.01) - 12) < 1e-9);
  assert.equal(forecast(0.52, 0.01), 0);
  assert.equal(forecast(0.9, 0.01, 0), 0);
  assert.equal(weight({ type: "cricket.forecast", data: { home: 0.9, se: 0, delivery: 3 } }, { world: {} }), 0);
  const wicket = (runs) => weight({ type: "cricket.wicket_fell", data: { player: { runs } } }, {});
  assert.ok(wicket(60) > wicket(0) && wicket(0) > weight({ type: "cricket.ball_bowled", data: { kind: "six" } }, {}));
  assert.ok(weight({ type: "cricket.match_ended", data: {} }, {}) > 50);
  assert.equal(weight({ type: "step.taken", data: {} }, {}), 0);
  assert.deepEqual(worths({ type: "cricket.forecast", data: { delivery: 4, batting: "away", batting_value: 0.02, bowling_value: -0.01 } }), [{ actor: "away", points: 2 }, { actor: "home", points: -1 }]);
  assert.deepEqual(worths({ type: "cricket.forecast", data: { delivery: 0, batting: "away", batting_value: 0, bowling_value: 0 } }), []);
});
