import assert from "node:assert/strict";
import { test } from "node:test";

import { Player } from "../../static/live/player.js";
import { PART } from "../../static/live/past_parts.js";
import { Source } from "../../static/live/source.js";
import { Timeline } from "../../static/live/timeline.js";
import { events } from "./builders.mjs";

const HEAD = 30_000;
const stateAt = (seq) => (seq ? { world: { n: seq } } : {});

/** A page that opened a long record at its end, and what it asks of the server. */
function opened(t) {
  const asked = [];
  t.mock.method(globalThis, "fetch", async (address) => {
    const url = new URL(address);
    asked.push(`${url.pathname.split("/").at(-1)}${url.search}`);
    const number = (name) => Number(url.searchParams.get(name));
    if (url.pathname.endsWith("/state")) {
      const seq = url.searchParams.has("at") ? number("at") : HEAD;
      return Response.json({ epoch: "e1", seq, head_seq: HEAD, state: stateAt(seq) });
    }
    const last = Math.min(HEAD, number("after_seq") + number("limit"));
    return new Response(events(number("after_seq") + 1, last).map((one) => JSON.stringify(one)).join("\n"));
  });
  const timeline = new Timeline();
  const told = [];
  const source = new Source({ root: "http://here/", episodeId: "ep-1", timeline, onChange: () => {}, onReading: (reading) => told.push(reading) });
  return { asked, told, timeline, source, player: new Player(timeline) };
}

test("a long record opens with its newest state and none of its events", async (t) => {
  const { asked, timeline, source } = opened(t);
  await source.openAtEnd();
  assert.equal(timeline.headSeq, HEAD);
  assert.deepEqual(timeline.headState, stateAt(HEAD));
  assert.ok(timeline.inParts && timeline.firstSeq === 1);
  assert.deepEqual(asked, ["state", `state?at=${HEAD - 3 * PART}`]);
});

test("a jump reads one state and one part, whatever lies between, and each place of it is right", async (t) => {
  const { asked, timeline, source } = opened(t);
  await source.openAtEnd();
  asked.length = 0;
  await source.reach(9_123);
  assert.deepEqual(asked, ["state?at=9000", `events?after_seq=9000&limit=${PART}`]);
  for (const seq of [9_123, 9_001, 9_000, 10_000, 9_500]) assert.deepEqual(timeline.stateAt(seq), stateAt(seq));
  assert.equal(timeline.eventAt(9_123)?.seq, 9_123);
  assert.deepEqual(timeline.stateAt(HEAD), stateAt(HEAD));
  assert.ok(!timeline.knows(8_999) && !timeline.knows(10_001));
  await source.reach(9_700);
  assert.equal(asked.length, 2);
  await source.reach(5);
  assert.deepEqual(asked.slice(2), [`events?after_seq=0&limit=${PART}`]);
  assert.deepEqual(timeline.stateAt(5), stateAt(5));
});

test("parts that lie beside each other are joined, up to the newest state", async (t) => {
  const { timeline, source } = opened(t);
  await source.openAtEnd();
  for (const seq of [28_500, 29_500, 27_500]) await source.reach(seq);
  assert.deepEqual(timeline.past.part, { base: 27_000, last: HEAD });
  for (const seq of [27_001, 28_000, 28_001, 29_999]) assert.deepEqual(timeline.stateAt(seq), stateAt(seq));
  assert.equal(new Set(timeline.stops).size, timeline.stops.length);
});

test("the newest wish is read, and what was wished for in between is not", async (t) => {
  const { asked, source, timeline } = opened(t);
  await source.openAtEnd();
  asked.length = 0;
  await Promise.all([1_500, 7_500, 12_500, 20_500].map((seq) => source.reach(seq)));
  assert.deepEqual(asked.filter((one) => one.startsWith("events")), [`events?after_seq=1000&limit=${PART}`, `events?after_seq=20000&limit=${PART}`]);
  assert.ok(timeline.knows(20_500));
});

test("stepping, scrubbing and playing go on over the parts", async (t) => {
  const { source, timeline, player } = opened(t);
  await source.openAtEnd();
  await source.reach(player.seq - 1);
  player.stepBeat(-1);
  assert.equal(player.seq, HEAD - 3, "where the turn before ended");
  player.seekPosition(12_345);
  assert.equal(player.position, 12_345);
  assert.equal(player.lastPosition, HEAD);
  await source.reach(12_345);
  player.stepTurn(1);
  assert.equal(player.seq, 12_348, "where the next turn ends");
  player.seek(13_000);
  assert.equal(timeline.nextTurn(13_000), 13_000, "what is not read yet is waited for");
  await source.reach(13_001);
  assert.equal(timeline.nextTurn(13_000), 13_002);
});

test("a part that cannot be read leaves what was shown, and is asked for again", async (t) => {
  const { asked, source, timeline } = opened(t);
  await source.openAtEnd();
  const fetching = globalThis.fetch;
  t.mock.method(globalThis, "fetch", async () => new Response("", { status: 503 }));
  await source.reach(500);
  assert.ok(!timeline.knows(500));
  t.mock.method(globalThis, "fetch", fetching);
  asked.length = 0;
  await source.reach(500);
  assert.ok(timeline.knows(500) && asked.length === 1);
});

test("the whole record takes the place of the parts", async (t) => {
  const { source, timeline } = opened(t);
  await source.openAtEnd();
  await source.reach(500);
  timeline.complement(events(1, HEAD));
  assert.ok(timeline.complete && !timeline.inParts && timeline.past.part === null);
  assert.deepEqual(timeline.stateAt(500), stateAt(500));
});

test("where the server takes long over a record, the page is told how far it is", async (t) => {
  const { told, source, timeline } = opened(t);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const fetching = globalThis.fetch;
  let [answer, asked] = [() => {}, []];
  const newest = new Promise((resolve) => { answer = resolve; });
  t.mock.method(globalThis, "fetch", async (address) => {
    asked.push(new URL(address).searchParams.get("at"));
    if (asked.length === 5) answer();
    if (asked.at(-1) === null) await newest;
    return fetching(address);
  });
  const opening = source.openAtEnd();
  while (asked.length === 0) await new Promise(setImmediate);
  assert.deepEqual(told, []);
  t.mock.timers.tick(700);
  await opening;
  assert.deepEqual(asked.slice(0, 4), [null, "2001", "4001", "6001"]);
  const all = HEAD;
  assert.deepEqual(told.slice(0, 4), [{ done: 0, all: 0 }, { done: 2_000, all }, { done: 4_000, all }, { done: 6_000, all }]);
  assert.equal(told.at(-1), null, "the line is taken away");
  assert.equal(timeline.headSeq, HEAD);
  assert.ok(told.length <= 6);
});

test("what is there at once is told of by nobody", async (t) => {
  const { told, source } = opened(t);
  await source.openAtEnd();
  await source.reach(9_123);
  assert.deepEqual(told, []);
});
