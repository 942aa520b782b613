import assert from "node:assert/strict";
import { test } from "node:test";

import { backoff, parseEvent, parseFrame, socketAddress } from "../../static/live/protocol.js";
import { Timeline } from "../../static/live/timeline.js";
import { event } from "./builders.mjs";

test("a frame of every kind is read", () => {
  const frames = [
    { frame: "hello", protocol: 1, episode_id: "ep-1", epoch: "e", head_seq: 0, viewers: 1 },
    { frame: "snapshot", epoch: "e", seq: 4, state: {} },
    { frame: "event", ...event(5) },
    { frame: "viewers", count: 3 },
    { frame: "pong", t: 1 },
    { frame: "bye", code: 1012, reconnect: true, reason: "restart" },
  ];
  for (const frame of frames) assert.deepEqual(parseFrame(JSON.stringify(frame)), frame);
});

test("a frame of a kind from the future is passed over, one with a further field is read", () => {
  assert.equal(parseFrame('{"frame":"hologram","x":1}'), null);
  assert.equal(parseFrame('{"frame":"toString"}'), null);
  assert.equal(parseFrame('{"frame":"viewers","count":3,"since":"v2"}').count, 3);
});

for (const text of ["", "nonsense", "null", "[]", "7", '{"frame":3}', '{"frame":"event","epoch":"e"}', '{"frame":"snapshot","epoch":"e","seq":-1,"state":{}}',
  '{"frame":"snapshot","epoch":"e","seq":1.5,"state":{}}', '{"frame":"snapshot","epoch":"e","seq":1,"state":[]}', '{"frame":"viewers","count":"3"}']) {
  test(`not a frame: ${text || "nothing"}`, () => assert.throws(() => parseFrame(text)));
}

test("an event of a type from the future is read; a line that is none is refused", () => {
  assert.equal(parseEvent(JSON.stringify(event(3, { type: "hockey.goal", v: 9 }))).type, "hockey.goal");
  assert.throws(() => parseEvent('{"seq":1}'), /epoch/);
});

test("the socket's address keeps the prefix that the page is served under, and says what the viewer has", () => {
  assert.equal(socketAddress("https://x.hf.space/", "live/ep-1"), "wss://x.hf.space/live/ep-1");
  assert.equal(socketAddress("http://h:8000/some/prefix/", "live/ep-1", { epoch: "a&b", seq: 7 }), "ws://h:8000/some/prefix/live/ep-1?epoch=a%26b&seq=7");
});

test("waiting grows to 15 s, never below half a second, and is spread over the whole range", () => {
  assert.equal(backoff(0, () => 0), 500);
  assert.equal(backoff(0, () => 1), 1_000);
  assert.equal(backoff(3, () => 1), 8_000);
  assert.equal(backoff(4, () => 1), 15_000);
  assert.equal(backoff(5_000, () => 1), 15_000);
  assert.equal(backoff(9, () => 0), 500);
});

test("an event of a newer version and of a type that nobody knows is applied all the same: the state is the server's", () => {
  const newer = { ...event(1), v: 9, type: "hologram.shown", data: { beam: 1 }, patch: { world: { n: 1, beam: { on: true } } }, more: "fields" };
  const frame = parseFrame(JSON.stringify({ frame: "event", ...newer }));
  const timeline = new Timeline({ "cricket.ball_bowled": 1 });
  assert.equal(timeline.push(frame), "added");
  assert.equal(timeline.push(event(2)), "added");
  assert.deepEqual(timeline.headState, { world: { n: 2, beam: { on: true } } });
});
