import assert from "node:assert/strict";
import { test } from "node:test";

import { ballWords } from "../../spectator/environments/cricket/panel/field.js";
import { onPaper, ropePath } from "../../spectator/environments/cricket/panel/ground.js";
import { LENGTHS, LINES, pitchedOf, spotOf } from "../../spectator/environments/cricket/panel/pitch_map.js";
import { spokes, spot, strokesOf } from "../../spectator/environments/cricket/panel/wheel.js";
import { standsOf } from "../../spectator/environments/cricket/panel/stands.js";
import * as it from "../../spectator/environments/cricket/panel/words.js";

test("rates", () => {
  assert.equal(it.strikeRate(23, 9), "255.6");
  assert.equal(it.strikeRate(0, 0), "–");
  assert.equal(it.ballsOf("3.4"), 22);
  assert.equal(it.ballsOf("4.0"), 24);
  assert.equal(it.ballsOf(undefined), 0);
  assert.equal(it.economy(24, "1.4"), "14.4");
  assert.equal(it.economy(0, "0.0"), "–");
});

test("every mark of the scorer has a look and words", () => {
  const kinds = { "·": "dot", 1: "run", 3: "run", 4: "four", 6: "six", W: "wicket", "1W": "wicket", wd: "extra", "2wd": "extra", nb: "extra", "5nb": "extra", b: "extra", "4lb": "extra", wdW: "wicket" };
  for (const [mark, kind] of Object.entries(kinds)) assert.equal(it.markKind(mark), kind, mark);
  assert.equal(it.markWords("·"), "no run");
  assert.equal(it.markWords("1W"), "1 and a wicket");
  assert.equal(it.validBalls(["1", "wd", "4", "nb", "W", "lb"]), 4);
});

test("a ball of an over is named as scorers count it, an innings by its number", () => {
  const over = { number: 3, marks: ["·", "wd", "1", "4", "nb", "W", "2lb"] };
  const named = over.marks.map((_, index) => it.ballName(over, index));
  assert.deepEqual(named, ["Over 3, ball 1: no run", "Over 3, ball 2: wide", "Over 3, ball 2: 1 run", "Over 3, ball 3: 4 runs", "Over 3, ball 4: no-ball", "Over 3, ball 4: wicket", "Over 3, ball 5: 2 from a leg-bye"]);
  assert.deepEqual([1, 2, 3, 4].map(it.inningsName), ["1st innings", "2nd innings", "super over", "super over"]);
  assert.equal(it.isInterval({ last_ball: {}, innings: 2, over: { number: 1, marks: [] } }), true);
  assert.equal(it.isInterval({ last_ball: {}, innings: 2, over: { number: 1, marks: ["1"] } }), false);
  assert.equal(it.isInterval({ innings: 1, over: { number: 1, marks: [] } }), false);
});

test("the over under way is what the score has beyond the finished ones", () => {
  const card = { overs: { 2: { runs: 3, wickets: 1, score: 11 }, 1: { runs: 8, wickets: 0, score: 8 } } };
  assert.deepEqual(it.oversOf(card, { runs: 16, wickets: 2 }).map((over) => [over.over, over.runs, over.wickets, over.unfinished]), [[1, 8, 0, false], [2, 3, 1, false], [3, 5, 1, true]]);
  assert.equal(it.oversOf(card, null).length, 2);
  assert.equal(it.oversOf(card, { runs: 11, wickets: 1 }).length, 2);
  assert.deepEqual(it.oversOf(undefined, null), []);
});

test("the field: off side right, for a left-hander left, bowler up", () => {
  assert.deepEqual(onPaper(10, 10.06), [10, 0]);
  assert.deepEqual(onPaper(10, 10.06, true), [-10, 0]);
  assert.ok(onPaper(0, 30)[1] < 0);
});

test("the rope goes through the middle of each sector, fine leg first", () => {
  const path = ropePath([64, 60, 60, 66, 72, 78, 78, 72], Math.round);
  assert.match(path, /^M-24 59C/);
  assert.match(path, / -72 -30C| -55 -23C/);
});

test("a drawing says in words what became of the ball", () => {
  const men = { 3: [22, 16, "cover"], keeper: [0, -11, "keeper"] };
  assert.equal(ballWords({ men }), "");
  assert.equal(ballWords({ men, ball: { kind: "wicket", out: "caught", by: "3" } }), "Caught, by cover.");
  assert.equal(ballWords({ men, ball: { kind: "wicket", out: "lbw" } }), "Lbw.");
  assert.equal(ballWords({ men, ball: { kind: "wicket", out: "run out", by: "3", broken: "non_striker" } }), "Run out at the bowler’s end, by cover.");
  assert.equal(ballWords({ men, ball: { kind: "dot", by: "keeper" } }), "The last ball was fielded by keeper.");
  assert.equal(ballWords({ men, ball: { kind: "six" } }), "The last ball went over the rope.");
});

test("the pitch map: balls of a bowler or to a batter, named as scorers count, each within its length and line", () => {
  const balls = { "00001": [1, 1, 3, 1, "·"], "00002": [1, 1, 2, 0, "wd"], "00003": [1, 2, 5, 3, "4"], "00101": [2, 2, 1, 2, "1W"] };
  const all = pitchedOf(balls);
  assert.deepEqual(all.map(({ at, outcome, runs }) => [at, outcome, runs]), [["0.1", "dot", 0], ["0.2", "run", 1], ["0.2", "boundary", 4], ["1.1", "wicket", 1]]);
  assert.deepEqual(pitchedOf(balls, "01").map(({ place }) => place), [1, 2, 3]);
  assert.deepEqual(pitchedOf(balls, "", "02").map(({ over }) => over), [1, 2]);
  assert.deepEqual(pitchedOf(undefined), []);
  const spots = (/** @type {number} */ length, /** @type {number} */ line) => Array.from({ length: 40 }, (_, place) => spotOf({ ...all[0], length, line, place }));
  assert.equal(new Set(spots(3, 1).map(String)).size, 40, "no two lie on each other");
  for (const [after, [line]] of LINES.slice(1).entries()) assert.ok(Math.max(...spots(3, LINES[after][0]).map(([x]) => x)) < Math.min(...spots(3, line).map(([x]) => x)));
  for (const [after, [length]] of LENGTHS.slice(1).entries()) assert.ok(Math.max(...spots(LENGTHS[after][0], 1).map(([, y]) => y)) < Math.min(...spots(length, 1).map(([, y]) => y)));
});

test("the wheel: strokes of one or of all, every one a spoke within its sector", () => {
  const wheel = { "01": { 3: { 1: 2, 6: 1 }, 8: { 4: 1 } }, "02": { 3: { 1: 1 } } };
  assert.deepEqual(strokesOf(wheel, "02"), [{ sector: 3, runs: 1, times: 1 }]);
  const all = strokesOf(wheel, "");
  assert.deepEqual(all.map((one) => [one.sector, one.runs, one.times]), [[3, 1, 3], [8, 4, 1], [3, 6, 1]]);
  const drawn = spokes(all);
  assert.equal(drawn.length, 5);
  for (const { runs, end: [x, y] } of drawn) {
    const angle = (Math.atan2(-x, y) + 2 * Math.PI) % (2 * Math.PI);
    assert.equal(Math.floor(angle / (Math.PI / 4)) + 1, runs === 4 ? 8 : 3);
    assert.equal(Math.hypot(x, y) > 70, runs === 6, "only a six goes over the rope");
  }
  assert.equal(new Set(drawn.map(({ end }) => Math.atan2(...end).toFixed(6))).size, 5, "no two lie on each other");
  assert.deepEqual(strokesOf(undefined, ""), []);
  assert.ok(spot(0.1, 10)[1] > 0, "fine leg is behind the striker");
});

test("partnerships follow from the fall of wickets", () => {
  const card = { fall: { 2: { wicket: 2, score: 30, name: "B" }, 1: { wicket: 1, score: 12, name: "A" } } };
  assert.deepEqual(standsOf(card, { runs: 7 }).map((one) => [one.wicket, one.runs, one.now]), [[1, 12, false], [2, 18, false], [3, 7, true]]);
  assert.deepEqual(standsOf(undefined, null), []);
  assert.deepEqual(standsOf({}, { runs: 0 }), [{ wicket: 1, runs: 0, name: "", now: true }]);
});

test("ordinals", () => {
  assert.deepEqual([1, 2, 3, 4, 11, 12, 13, 21, 56, 81, 101, 111].map(it.ordinal), ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "56th", "81st", "101st", "111th"]);
});

test("balls, overs and wickets have names that lead to them", () => {
  const bowled = { type: "cricket.ball_bowled", data: { innings: 2, delivery: 1 }, patch: { world: { over: { number: 4, marks: ["1", "wd", "W"] } } } };
  assert.deepEqual(it.moments(bowled), [it.momentNames.ofOver(2, 4, 3)]);
  assert.deepEqual(it.moments({ type: "cricket.forecast", data: { innings: 1, delivery: 12 } }), ["ball-1-12"]);
  assert.deepEqual(it.moments({ type: "cricket.over_completed", data: { innings: 1, over: 4 } }), ["over-1-4"]);
  assert.deepEqual(it.moments({ type: "cricket.wicket_fell", data: { innings: 1, wicket: 2 } }), ["wicket-1-2"]);
  assert.deepEqual(it.moments({ type: "step.taken", data: {} }), []);
});
