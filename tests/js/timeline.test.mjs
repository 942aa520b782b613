import assert from "node:assert/strict";
import { test } from "node:test";

import { SILENT } from "../../static/live/ledger.js";
import { linesUntil } from "../../static/live/moments.js";
import { Timeline } from "../../static/live/timeline.js";
import { event, events } from "./builders.mjs";

const filled = (last, beats = {}) => {
  const timeline = new Timeline(beats);
  for (const one of events(1, last)) timeline.push(one);
  return timeline;
};

test("fold law: for every k, snapshot(k) and the events after it are snapshot(n)", () => {
  const whole = filled(300);
  for (let k = 1; k <= 300; k += 1) {
    const late = new Timeline();
    late.reset("e1", k, whole.stateAt(k));
    for (const one of events(k + 1, 300)) assert.equal(late.push(one), "added");
    assert.deepEqual(late.headState, whole.headState);
  }
});

test("the state at any event is that of a fold from the beginning, in whatever order it is asked for", () => {
  const timeline = filled(1_000);
  for (const seq of [1, 999, 128, 129, 127, 500, 501, 502, 3, 1_000, 256, 700, 2]) assert.deepEqual(timeline.stateAt(seq), { world: { n: seq } });
});

test("a record that continues in a new epoch is one timeline; other events of another epoch are a gap", () => {
  const recovered = { ...event(4), epoch: "e2", type: "episode.recovered" };
  const record = [...events(1, 3), recovered, { ...event(5), epoch: "e2" }];
  const timeline = new Timeline();
  timeline.reset("e2", 5, {});
  timeline.complement(record);
  assert.deepEqual([timeline.epoch, timeline.headSeq, timeline.complete], ["e2", 5, true]);
  const behind = filled(6);
  assert.deepEqual(record.slice(3).map((one) => behind.push(one)), ["gap", "gap"], "it saw what is lost");
  assert.equal(filled(3).push(recovered), "added");
});

test("the stop that ends what happened is found", () => {
  const timeline = filled(300);
  for (const seq of [1, 2, 57, 299, 300]) {
    const found = timeline.stops.findIndex((stop) => stop >= seq);
    assert.equal(timeline.stopAt(seq), found);
  }
  assert.equal(timeline.stopAt(9_999), timeline.stops.length - 1);
  assert.equal(new Timeline().stopAt(3), 0);
});

test("the end of a turn is its last event, also in the middle of it", () => {
  const timeline = new Timeline();
  for (const [index, turn] of [0, 1, 1, 1, 2, 2].entries()) timeline.push({ ...event(index + 1), turn });
  assert.deepEqual([1, 2, 3, 4, 5, 6].map((seq) => timeline.turnEnd(seq)), [1, 4, 4, 4, 6, 6]);
  assert.equal(new Timeline().turnEnd(0), 0);
});

test("what is known is passed over; a gap and another epoch are told, and change nothing", () => {
  const timeline = filled(5);
  assert.equal(timeline.push(event(5)), "known");
  assert.equal(timeline.push(event(1)), "known");
  assert.equal(timeline.push(event(7)), "gap");
  assert.equal(timeline.push(event(6, { epoch: "e2" })), "gap");
  assert.equal(timeline.headSeq, 5);
  assert.deepEqual(timeline.headState, { world: { n: 5 } });
  assert.equal(timeline.push(event(6)), "added");
});

test("nothing but the first event begins an empty timeline", () => {
  const timeline = new Timeline();
  assert.equal(timeline.push(event(4)), "gap");
  assert.equal(timeline.push(event(1)), "added");
  assert.ok(timeline.complete);
});

test("a late joiner shows no past until the record complements it, and loses nothing by it", () => {
  const late = new Timeline();
  late.reset("e1", 40, { world: { n: 40 } });
  late.push(event(41));
  assert.equal(late.complete, false);
  assert.deepEqual(late.stateAt(3), { world: { n: 40 } });
  late.complement(events(1, 40));
  assert.ok(late.complete);
  assert.equal(late.headSeq, 41);
  assert.deepEqual(late.stateAt(3), { world: { n: 3 } });
  assert.equal(late.push(event(42)), "added");
});

test("a record that overlaps what came live meanwhile is joined without a seam; one with a hole is refused", () => {
  const late = new Timeline();
  late.reset("e1", 40, {});
  late.push(event(41));
  late.complement(events(1, 41));
  assert.equal(late.headSeq, 41);
  const torn = new Timeline();
  torn.reset("e1", 40, {});
  torn.push(event(41));
  assert.throws(() => torn.complement(events(1, 38)), /gap before 41/);
});

test("stops are the ends of turns in which a beat fell", () => {
  const timeline = new Timeline({ "world.ball": 1 });
  const types = ["episode.started", "decision.made", "step.taken", "decision.made", "world.ball", "narration.line", "step.taken", "decision.made", "world.ball", "step.taken", "episode.ended"];
  const turns = [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3];
  types.forEach((type, index) => timeline.push(event(index + 1, { type, turn: turns[index] })));
  assert.deepEqual(timeline.stops, [1, 7, 10, 11]);
  assert.equal(timeline.beatsAt(7), 1);
  assert.equal(timeline.beatsAt(3), 0);
});

test("without beats every turn is a stop", () => assert.deepEqual(filled(9).stops, [3, 6, 9]));

test("turns are walked in both directions and end at the ends", () => {
  const timeline = filled(9);
  assert.equal(timeline.nextTurn(1), 3);
  assert.equal(timeline.nextTurn(3), 6);
  assert.equal(timeline.nextTurn(9), 9);
  assert.equal(timeline.previousTurn(9), 6);
  assert.equal(timeline.previousTurn(3), 1);
  assert.equal(timeline.previousTurn(1), 1);
});

test("moments are lines that must or should be heard, also those a snapshot brought", () => {
  const line = (seq, priority) => event(seq, { type: "narration.line", data: { text: "t", priority, label: "OUT", at: "1.2" } });
  const timeline = new Timeline();
  timeline.reset("e1", 9, { feed: { "0000000004": { seq: 4, text: "old", priority: 0 } } });
  timeline.push(line(10, 3));
  timeline.push(line(11, 1));
  assert.deepEqual(timeline.moments.map((moment) => [moment.seq, moment.kind]), [[4, "turning"], [11, "big"]]);
});

test("what a world calls an event leads to the newest of that name, also after the record was read from its beginning", () => {
  const timeline = new Timeline();
  timeline.reading = { ...SILENT, names: (one) => (one.seq % 2 ? [] : [`even-${one.seq}`, "even"]) };
  timeline.reset("e1", 3, {});
  for (const one of events(4, 7)) timeline.push(one);
  assert.equal(timeline.placeOf("even-2"), undefined);
  assert.equal(timeline.placeOf("even-4"), 4);
  timeline.complement(events(1, 6));
  assert.equal(timeline.placeOf("even-2"), 2);
  assert.equal(timeline.placeOf("even"), 6);
  assert.equal(timeline.placeOf("odd"), undefined);
});

test("every line of commentary is kept, and those until an event are found", () => {
  const timeline = new Timeline();
  for (let seq = 1; seq <= 300; seq += 1) timeline.push(event(seq, seq % 3 ? {} : { type: "narration.line", data: { text: `line ${seq}`, priority: 3 } }));
  assert.equal(timeline.lines.length, 100);
  assert.deepEqual(linesUntil(timeline.lines, 7).map((line) => line.text), ["line 3", "line 6"]);
  assert.deepEqual(linesUntil(timeline.lines, 0), []);
  const late = new Timeline();
  late.reset("e1", 9, { feed: { "0000000006": { seq: 6, text: "six" }, "0000000003": { seq: 3, text: "three" } } });
  assert.deepEqual(linesUntil(late.lines, 9).map((line) => line.text), ["three", "six"]);
});
