import assert from "node:assert/strict";
import { test } from "node:test";

import { Player } from "../../static/live/player.js";
import { Timeline } from "../../static/live/timeline.js";
import { event, events } from "./builders.mjs";

const playerOn = (last, beats = {}) => {
  const timeline = new Timeline(beats);
  for (const one of events(1, last)) timeline.push(one);
  return { timeline, player: new Player(timeline) };
};

test("it follows the live edge until told otherwise", () => {
  const { timeline, player } = playerOn(6);
  assert.equal(player.seq, 6);
  timeline.push(event(7));
  assert.equal(player.seq, 7);
  player.pause();
  timeline.push(event(8));
  assert.equal(player.seq, 7);
  assert.equal(player.following, false);
  player.follow();
  assert.equal(player.seq, 8);
});

test("how far behind is counted in beats", () => {
  const { player } = playerOn(30);
  player.seek(6);
  assert.equal(player.behind, 8);
  player.follow();
  assert.equal(player.behind, 0);
});

test("stepping goes to the ends of beats and stays within the episode", () => {
  const { player } = playerOn(9);
  player.stepBeat(-1);
  assert.equal(player.seq, 6);
  player.stepBeat(-1);
  player.stepBeat(-1);
  player.stepBeat(-1);
  assert.equal(player.seq, 3);
  player.seek(4);
  player.stepBeat(-1);
  assert.equal(player.seq, 3);
  player.stepBeat(1);
  assert.equal(player.seq, 6);
  player.stepTurn(1);
  player.stepTurn(1);
  assert.equal(player.seq, 9);
});

test("seeking beyond either end stops there", () => {
  const { player } = playerOn(9);
  player.seek(-5);
  assert.equal(player.seq, 1);
  player.seek(1e9);
  assert.equal(player.seq, 9);
  player.seekPosition(99);
  assert.equal(player.seq, 9);
});

test("playing moves a turn at a time: two seconds a beat at speed 1, half as long at speed 2", () => {
  const { player } = playerOn(30);
  player.seek(3);
  player.play(false);
  assert.equal(player.tick(10, false), false);
  assert.equal(player.tick(11.9, false), false);
  assert.equal(player.tick(12.1, false), true);
  assert.equal(player.seq, 6);
  player.setSpeed(2);
  player.tick(14.2, false);
  assert.equal(player.seq, 9);
  player.tick(15.05, false);
  assert.equal(player.seq, 12);
});

test("turns without a beat pass quickly", () => {
  const { player } = playerOn(12, { "world.ball": 1 });
  player.seek(3);
  player.play(false);
  player.tick(10, false);
  player.tick(10.2, false);
  assert.equal(player.seq, 6);
});

test("a tab that slept an hour does not race through the whole episode at once", () => {
  const { player } = playerOn(300);
  player.seek(3);
  player.play(false);
  player.tick(10, false);
  player.tick(3_610, false);
  assert.ok(player.seq <= 9, `at ${player.seq}`);
});

test("at the end a recorded episode stands still, a live one is live again", () => {
  const { player } = playerOn(6);
  player.seek(3);
  player.play(false);
  player.tick(10, false);
  player.tick(12.1, false);
  assert.deepEqual([player.playing, player.following, player.seq], [false, false, 6]);
  player.seek(3);
  player.play(true);
  player.tick(20, true);
  player.tick(22.1, true);
  assert.deepEqual([player.playing, player.following], [false, true]);
});

test("play at the end begins anew", () => {
  const { player } = playerOn(9);
  player.play(false);
  assert.deepEqual([player.playing, player.seq], [true, 1]);
});

test("only the offered speeds are taken", () => {
  const { player } = playerOn(3);
  for (const speed of [0, -1, 3, NaN, Infinity, "8"]) player.setSpeed(speed);
  assert.equal(player.speed, 1);
  player.setSpeed(8);
  assert.equal(player.speed, 8);
});

test("big moments are reached at the end of their beats", () => {
  const timeline = new Timeline();
  for (let seq = 1; seq <= 12; seq += 1) timeline.push(event(seq, seq === 5 || seq === 8 ? { type: "narration.line", data: { text: "t", priority: 0 } } : {}));
  const player = new Player(timeline);
  player.seek(1);
  const places = [];
  for (const direction of [1, 1, 1, -1, -1]) {
    player.stepMoment(/** @type {1 | -1} */ (direction));
    places.push(player.seq);
  }
  assert.deepEqual(places, [6, 9, 9, 6, 6]);
});

test("chapters are stepped by their ends, and a world without any stays where it is", () => {
  const timeline = new Timeline({}, { "x.over": "over" });
  for (const one of events(1, 30)) timeline.push(one.seq % 9 === 0 ? { ...one, type: "x.over" } : one);
  const player = new Player(timeline);
  assert.deepEqual(timeline.chapters, [9, 18, 27]);
  assert.equal(timeline.chapterName, "over");
  player.stepChapter(-1);
  assert.equal(player.seq, 27);
  player.stepChapter(-1);
  assert.equal(player.seq, 18);
  player.stepChapter(1);
  assert.equal(player.seq, 27);
  player.stepChapter(1);
  assert.equal(player.seq, 27);
  const { player: plain } = playerOn(9);
  plain.stepChapter(-1);
  assert.equal(plain.seq, 9);
});
