import assert from "node:assert/strict";
import { test } from "node:test";

import { clipOf, LIFE_MS, lineToSay, Turns } from "../../static/live/speech.js";
import { Timeline } from "../../static/live/timeline.js";
import { event } from "./builders.mjs";

const at = (seconds) => new Date(Date.UTC(2026, 10, 21, 5, 0, seconds)).toISOString();
const line = (seq, priority, text = `line ${seq}`, second = seq) => event(seq, { type: "narration.line", at: at(second), data: { text, priority, for_seq: seq - 1 } });
const clip = (seq, forSeq, second = seq, more = {}) => event(seq, { type: "narration.clip", at: at(second), data: { for_seq: forSeq, url: `/audio/${forSeq}.mp3`, text: `said ${forSeq}`, duration_s: 2, ...more } });
const timelineOf = (...events) => {
  const timeline = new Timeline();
  for (const one of events) assert.equal(timeline.push(one), "added");
  return timeline;
};
const said = (seq, priority, more = {}) => ({ seq, text: `line ${seq}`, caption: `line ${seq}`, priority, url: null, interrupt: priority === 0, speaker: "lead", reply: null, ...more });

test("at the live edge a line is said when its clip is told", () => {
  const timeline = timelineOf(event(1), line(2, 1), event(3), clip(4, 2, 4, { interrupt: true }));
  assert.equal(lineToSay(timeline, 0, 3, true), null);
  assert.deepEqual(lineToSay(timeline, 3, 4, true), { seq: 2, text: "said 2", caption: "line 2", priority: 1, url: "/audio/2.mp3", interrupt: true, speaker: "lead", reply: null });
});

test("a clip that comes too late for its line is not said", () => {
  const timeline = timelineOf(event(1), line(2, 3, "dot", 2), clip(3, 2, 2 + LIFE_MS[3] / 1000 + 1));
  assert.equal(lineToSay(timeline, 2, 3, true), null);
});

test("in a replay a line is said where it was told, by its clip if there is one", () => {
  const timeline = timelineOf(event(1), line(2, 2), line(3, 0), clip(4, 3), line(5, 2));
  assert.deepEqual(lineToSay(timeline, 1, 2, false), said(2, 2));
  assert.deepEqual(lineToSay(timeline, 2, 4, false), { seq: 3, text: "said 3", caption: "line 3", priority: 0, url: "/audio/3.mp3", interrupt: true, speaker: "lead", reply: null });
  assert.equal(clipOf(timeline, 2), null);
});

test("of several lines the most important is said, of equals the newest", () => {
  const timeline = timelineOf(event(1), line(2, 3), line(3, 1), line(4, 2), line(5, 1));
  assert.equal(lineToSay(timeline, 1, 5, false).seq, 5);
  assert.equal(lineToSay(timeline, 1, 4, false).seq, 3);
});

test("one line is said and one waits", () => {
  const turns = new Turns();
  assert.equal(turns.offer(said(1, 3), 0), "say");
  assert.equal(turns.offer(said(2, 2), 0), "wait");
  assert.equal(turns.offer(said(3, 3), 0), "drop");
  assert.equal(turns.offer(said(4, 2), 0), "wait");
  assert.equal(turns.over(1_000).seq, 4);
  assert.equal(turns.over(2_000), null);
  assert.equal(turns.said, null);
});

test("what must be heard interrupts, but not its like", () => {
  const turns = new Turns();
  turns.offer(said(1, 3), 0);
  assert.equal(turns.offer(said(2, 0), 0), "interrupt");
  assert.equal(turns.said.seq, 2);
  assert.equal(turns.offer(said(3, 0), 0), "wait");
  assert.equal(turns.over(100).seq, 3);
});

test("what waited too long is not said", () => {
  const turns = new Turns();
  turns.offer(said(1, 1), 0);
  turns.offer(said(2, 3), 0);
  assert.equal(turns.over(LIFE_MS[3] + 1), null);
});

test("cleared, nothing is said or waits", () => {
  const turns = new Turns();
  turns.offer(said(1, 1), 0);
  turns.offer(said(2, 1), 0);
  turns.clear();
  assert.equal(turns.said, null);
  assert.equal(turns.over(0), null);
});

test("an answer is said by the second commentator right after its line, at the live edge as in a replay", () => {
  const answered = event(2, { type: "narration.line", at: at(2), data: { text: "line 2", priority: 2, for_seq: 1, reply: "answer" } });
  const timeline = timelineOf(event(1), answered, clip(3, 2), clip(4, 2, 5, { speaker: "analyst", text: "said back", url: "/audio/r.mp3" }), clip(5, 2, 60, { speaker: "analyst" }));
  const reply = { seq: 2, text: "said back", caption: "answer", priority: 1, url: "/audio/r.mp3", interrupt: false, speaker: "analyst", reply: null };
  assert.deepEqual(lineToSay(timeline, 1, 2, false).reply, reply);
  assert.deepEqual(lineToSay(timeline, 2, 4, true).reply, reply, "both clips told at once");
  assert.equal(lineToSay(timeline, 2, 3, true).reply, null);
  assert.deepEqual(lineToSay(timeline, 3, 4, true), reply, "one after the other");
  assert.equal(lineToSay(timeline, 4, 5, true), null, "too late");
});

test("an answer comes before what waits, but not before what must be heard", () => {
  const reply = said(1, 1, { speaker: "analyst" });
  for (const [priority, expected] of [[2, "analyst"], [0, "lead"]]) {
    const turns = new Turns();
    turns.offer(said(1, 0, { reply }), 0);
    turns.offer(said(2, priority), 0);
    assert.equal(turns.over(100).speaker, expected);
    if (priority) assert.equal(turns.over(200).seq, 2);
  }
});
