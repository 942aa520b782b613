import assert from "node:assert/strict";
import { test } from "node:test";

import { SILENT } from "../../static/live/ledger.js";
import { Timeline } from "../../static/live/timeline.js";
import { lastGreatMoments, rewardParts } from "../../static/ui/ending.js";
import { rematchOf } from "../../static/ui/rematch.js";
import { seqOf } from "../../static/ui/go_to.js";
import { event } from "./builders.mjs";

const filled = (...changes) => {
  const timeline = new Timeline();
  changes.forEach((change, index) => timeline.push(event(index + 1, change)));
  return timeline;
};

test("the reward of the last step is told by its parts", () => {
  const rubric = { result: 1, quality: 0.5, score: 0.9, note: "none" };
  const timeline = filled({}, { type: "step.taken", data: { rubric } }, { type: "episode.ended" });
  assert.deepEqual(rewardParts(timeline), [["result", 1], ["quality", 0.5]]);
  assert.deepEqual(rewardParts(filled({ type: "episode.started" }, { type: "episode.ended" })), []);
});

test("without a world's own account the last great moments are named, the result aside", () => {
  const line = (label, priority) => ({ type: "narration.line", data: { text: label, label, priority, at: "1.2" } });
  const timeline = filled({}, ...["a", "b", "c", "d"].map((label) => line(label, 0)), line("4", 1), line("result", 0));
  assert.deepEqual(lastGreatMoments(timeline).map((one) => [one.moment, one.title]), [[3, "1.2 b"], [4, "1.2 c"], [5, "1.2 d"]]);
});

test("a rematch keeps captains and options, draws a new seed, and can be watched", () => {
  const episode = { environment: "cricket", agent: "home", seats: { home: { policy: "heuristic" }, away: { policy: "anchor" } }, pace: "max", options: { max_overs: 2 }, seed: 7 };
  assert.deepEqual(rematchOf(episode), { environment: "cricket", captain_preset: "heuristic", opponent_choice: "anchor", pace: "fast", options: { max_overs: 2 } });
  assert.equal("opponent_choice" in rematchOf({ environment: "counting", agent: "counter", seats: { counter: { policy: "random" } }, pace: "broadcast" }), false);
});

test("a moment is an event's number or a name that is known", () => {
  const timeline = new Timeline();
  timeline.reading = { ...SILENT, names: (one) => (one.seq === 2 ? ["ball-1-1"] : []) };
  for (let seq = 1; seq <= 4; seq += 1) timeline.push(event(seq));
  assert.equal(seqOf(timeline, "3"), 3);
  assert.equal(seqOf(timeline, "ball-1-1"), 2);
  for (const unknown of ["9", "ball-9-9", "", "-1", "1e3"]) assert.equal(seqOf(timeline, unknown), null, unknown);
});
