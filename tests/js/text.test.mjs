import assert from "node:assert/strict";
import { test } from "node:test";

import { problemMessage, wrongFields } from "../../static/live/api.js";
import { linear, linePath, ticks } from "../../static/charts/charts.js";
import { readControl, scalarKind } from "../../static/ui/form_parts.js";
import { statusWords } from "../../static/ui/header.js";
import { placeInWords } from "../../static/ui/waiting.js";
import { ago, argumentText, clip, duration, plain, plural, rewardText, words } from "../../static/ui/text.js";

test("hidden and turning characters are taken out, the rest stays", () => {
  assert.equal(plain("a\u202eb\u200bc\u0007d\u2066e\ufeff"), "abcde");
  assert.equal(plain("<b>é 🏏 \n名</b>"), "<b>é 🏏 \n名</b>");
  assert.equal(plain(undefined), "");
});

test("clipping never splits a character", () => {
  assert.equal(clip("short", 9), "short");
  assert.equal(clip("abcdefgh", 5), "abcd…");
  for (let limit = 2; limit < 12; limit += 1) assert.ok(clip("🏏🏏🏏🏏🏏🏏🏏", limit).isWellFormed());
  assert.equal(clip("x".repeat(100_000), 20).length, 20);
});

test("arguments of any shape are one short line", () => {
  assert.equal(argumentText("slip"), "slip");
  assert.equal(argumentText(0.5), "0.5");
  assert.equal(argumentText({ a: [1, 2] }), '{"a":[1,2]}');
  assert.equal(argumentText(null), "null");
  assert.ok(argumentText("y".repeat(1e5)).length <= 80);
});

test("figures are written for people", () => {
  assert.deepEqual([duration(0.00004), duration(0.0384), duration(2.14), duration(NaN), duration(undefined)], ["<1 ms", "38 ms", "2.1 s", "", ""]);
  assert.deepEqual([plural(1, "turn"), plural(1_200, "turn"), plural(3, "watching", "watching")], ["1 turn", "1,200 turns", "3 watching"]);
  assert.equal(words("max_overs"), "max overs");
});

test("ages stay sane when clocks are an hour apart", () => {
  const now = Date.parse("2026-11-21T10:00:00Z");
  assert.equal(ago("2026-11-21T11:00:00Z", now), "just now");
  assert.equal(ago("2026-11-21T09:48:00Z", now), "12 min ago");
  assert.equal(ago("2026-11-21T05:00:00Z", now), "5 h ago");
  assert.match(ago("2026-10-02T05:00:00Z", now), /Oct/);
  assert.equal(ago("yesterday", now), "");
});

test("the state of things is said in words", () => {
  const player = { following: true, playing: false, atEdge: true };
  const link = (phase, more = {}) => ({ phase, attempt: 0, reason: "", ...more });
  const said = (...args) => statusWords(...args).words;
  assert.equal(said(link("connecting"), undefined, player), "Connecting");
  assert.equal(said(link("connecting", { attempt: 2 }), { status: "live" }, player), "Reconnecting");
  assert.equal(said(link("waiting", { retryInMs: 3_400 }), { status: "live" }, player), "Reconnecting in 4 s");
  assert.equal(said(link("open"), { status: "live" }, player), "Live");
  assert.equal(said(link("open"), { status: "paused" }, player), "Paused");
  assert.equal(said(link("record"), { status: "live" }, player), "Live, polling");
  assert.equal(said(link("closed"), { status: "ended", reason: "finished" }, player), "Finished");
  assert.equal(said(link("closed"), { status: "ended", reason: "finished" }, { ...player, atEdge: false }), "Replay");
  assert.equal(said(link("open"), { status: "live" }, { following: false, playing: false, atEdge: false }), "Behind live");
  assert.equal(said(link("closed", { reason: "no such episode" }), { status: "live" }, player), "Closed: no such episode");
});

test("refusals are told, whatever their shape", () => {
  assert.equal(problemMessage(409, { detail: "all slots are taken" }), "all slots are taken");
  assert.equal(problemMessage(429, null, "7"), "Too many requests. Try again in 7 s.");
  assert.equal(problemMessage(500, "<html>"), "The server answered 500.");
  assert.deepEqual(wrongFields({ errors: [{ field: "seed", rule: "must be" }] }), [{ field: "seed", rule: "must be" }]);
  for (const body of [null, 3, "x", { errors: 7 }]) assert.deepEqual(wrongFields(body), []);
});

test("options of a single value get a control, others none", () => {
  const whole = { $defs: { Side: { enum: ["home", "away"] } } };
  assert.equal(scalarKind({ type: "integer" }, whole).name, "integer");
  assert.equal(scalarKind({ $ref: "#/$defs/Side" }, whole).name, "choice");
  assert.deepEqual(scalarKind({ anyOf: [{ type: "number" }, { type: "null" }] }, whole), { name: "number", schema: { type: "number" }, optional: true });
  for (const schema of [{ type: "object" }, { type: "array" }, { const: "toss", type: "string" }, {}, null, { anyOf: [{ type: "integer" }, { type: "string" }] }]) assert.equal(scalarKind(schema, whole), null);
});

test("a control's text becomes what the server wants; nonsense is left for the server to name", () => {
  const read = (value, dataset = {}, id = "x") => readControl({ value, dataset, id });
  assert.equal(read("7", { kind: "integer" }), 7);
  assert.equal(read("five", { kind: "integer" }), "five");
  assert.equal(read("true", { kind: "boolean" }), true);
  assert.equal(read("", {}, "seed"), undefined);
  assert.equal(read(" 12 ", {}, "seed"), 12);
  assert.equal(read("1e999", {}, "seed"), "1e999");
  assert.equal(read("", { optional: "" }), undefined);
  assert.equal(read("home"), "home");
});

test("scales and ticks", () => {
  assert.equal(linear([0, 10], [100, 0])(5), 50);
  assert.equal(linear([3, 3], [0, 9])(3), 0);
  assert.deepEqual(ticks(18), [0, 5, 10, 15, 20]);
  assert.deepEqual(ticks(2), [0, 1, 2]);
  assert.deepEqual(ticks(0), [0]);
  assert.deepEqual(ticks(NaN), [0]);
  assert.equal(linePath([[0, 1], [2.345, 3]]), "M0 1L2.35 3");
});

test("what is out of the ordinary is said", async () => {
  const { noticeOf } = await import("../../static/ui/notice.js");
  const said = (episode, more = {}) => noticeOf({ episode, ...more }).words;
  assert.equal(said({ status: "live" }), "");
  assert.equal(said({ status: "ended", reason: "finished" }), "");
  assert.equal(said({ status: "ended", reason: "interrupted", detail: "the server went away" }), "Interrupted: the server went away. The episode so far is kept.");
  assert.match(said({ status: "paused" }), /^Paused/);
  assert.equal(said({ status: "live" }, { warning: { seq: 3, message: "slow" } }), "slow");
  assert.equal(noticeOf({}).words, "");
});

test("rewards are signed and short", () => {
  assert.deepEqual([0.1, -0.3, 12, 0.1 + 0.2, -0.00001, 0].map(rewardText), ["+0.1", "−0.3", "+12", "+0.3", "0", "0"]);
  assert.deepEqual([undefined, null, NaN, Infinity, "1"].map(rewardText), ["", "", "", "", ""]);
});

test("a place in the queue is told in words, with the time where it is known", () => {
  assert.equal(placeInWords({ place: 1, waiting: 1 }), "You are next of 1 in the queue.");
  assert.equal(placeInWords({ place: 3, waiting: 4, within_s: 61 }), "You are number 3 of 4 in the queue. A slot should be free within 2 min.");
  assert.equal(placeInWords({ place: 1, waiting: 1, within_s: 0 }), "You are next of 1 in the queue. A slot should be free within 1 min.");
  assert.equal(placeInWords({ waiting: 64 }), "The queue is full. Trying again.");
});
