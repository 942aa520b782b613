import assert from "node:assert/strict";
import { test } from "node:test";

import { advantages, alone, company, decisionsOf, firstParting } from "../../static/live/siblings.js";
import { WallFeed } from "../../static/live/wall.js";
import { entropies, maskWords, sureness, uncertainty, versionsOf } from "../../static/ui/inspected_tokens.js";
import { executed, proposals } from "../../static/ui/proposed.js";
import { chosen, goodness, progressWords, rewardWords, standingOf, took } from "../../static/ui/run_words.js";

const event = (seq, type, data = {}) => ({ seq, type, data });

test("a decision reaches to the next one of the agent, with what was earned by then", () => {
  const events = [event(1, "episode.started"), event(2, "decision.made", { actor: "a", action: { say: 1 } }), event(3, "step.taken", { reward: 0.5 }),
    event(4, "decision.made", { actor: "b", action: {} }), event(5, "step.taken", { reward: 1 }), event(6, "decision.made", { actor: "a", action: { say: 2 } }), event(7, "step.taken", { reward: -1 })];
  assert.deepEqual(decisionsOf(events, "a").map(({ seq, until, essence, earned }) => [seq, until, essence, earned]), [[2, 5, '{"say":1}', 1.5], [6, 7, '{"say":2}', 0.5]]);
});

test("siblings go together until they decide otherwise, and never again", () => {
  const ways = [["x", "y", "z"], ["x", "y", "w"], ["x", "q", "z"], ["x"]];
  const counts = company(ways);
  assert.deepEqual(counts.map((row) => row.map(({ count }) => count)), [[4, 2, 1], [4, 2, 1], [4, 1, 1], [4]]);
  assert.notEqual(counts[0][1].branch, counts[2][1].branch);
  assert.equal(firstParting(ways), 1);
  assert.equal(firstParting([["x"], ["x", "y"]]), null);
  assert.equal(firstParting([]), null);
  assert.deepEqual(counts.map(alone), [2, 2, 1, null]);
});

test("advantages are those of the exports", () => {
  assert.deepEqual(advantages([0, 1, 1]).map((one) => one.toFixed(2)), ["-1.15", "0.58", "0.58"]);
  assert.deepEqual([advantages([0.5]), advantages([]), advantages([2, 2])], [[0], [], [0, 0]]);
  assert.deepEqual([goodness({ advantage: 1 }), goodness({ advantage: -0.3 }), goodness({})], [2, -1, 0]);
});

test("what stands still is slow, then stalled, by what a turn takes", () => {
  const run = { usual_turn_s: 2 };
  const at = (/** @type {number} */ idle) => standingOf({ moved_at: "2026-01-01T00:00:00Z" }, run, Date.parse("2026-01-01T00:00:00Z") + idle * 1000);
  assert.deepEqual([1, 7, 21].map(at), ["playing", "slow", "stalled"]);
  assert.equal(standingOf({ moved_at: "2026-01-01T00:00:00Z" }, {}, Date.parse("2026-01-01T00:02:00Z")), "slow");
  assert.deepEqual([59, 600, 36_000, 200_000].map(took), ["59 s", "10 min", "10.0 h", "2.3 d"]);
});

test("a run says how far it is, and that nobody seems to play it", () => {
  const now = Date.parse("2026-01-01T00:10:00Z");
  const run = { episodes: 8, over: 4, playing: 2, a_second: 0.1, moved_at: "2026-01-01T00:09:59Z", mean: 0.5, error: 0.1, own_share: 0.875, refusals: 2, penalised: 1, verdicts: 3, failures: { timeout: 1 }, again: 1 };
  assert.deepEqual(progressWords(run, now).map(([value]) => value), ["4 of 8", "2", "40 s", "0.5 ± 0.1", "87.5\u00a0%", "2", "1", "1"]);
  assert.match(progressWords({ ...run, moved_at: "2026-01-01T00:00:00Z" }, now)[2][1], /is a worker running/);
  assert.equal(progressWords({ ...run, over: 8 }, now)[2][0], "Finished");
  assert.deepEqual(progressWords({}, now), [["0", "episodes finished"]]);
});

test("a group states the shares of its refused answers and its episodes that were cut off", () => {
  const group = { mean: 0.5, own_share: 1, refusals: 2, refused_share: 0.25, cut_share: 0.5 };
  assert.deepEqual(rewardWords(group, 4).slice(2), [["2", "answers refused (25\u00a0%)"], ["50\u00a0%", "cut off at a limit of length"]]);
  assert.equal(rewardWords({ ...group, refusals: 0, refused_share: 0, cut_share: 0 }, 4).length, 2);
});

test("groups are chosen by name, member and what they have come to", () => {
  const groups = { "g-2": { state: "open", mean: 1, spread: 0, usable: 2, members: { "ep-x": {} } }, "g-1": { state: "complete", mean: 0.2, spread: 0.5, usable: 4, members: { "ep-y": {} } } };
  const names = (/** @type {any} */ wanted) => chosen(groups, { text: "", standing: "", order: "", ...wanted }).map(([name]) => name);
  assert.deepEqual(names({}), ["g-1", "g-2"]);
  assert.deepEqual(names({ text: "EP-X" }), ["g-2"]);
  assert.deepEqual([names({ standing: "complete" }), names({ standing: "same" })], [["g-1"], ["g-2"]]);
  assert.deepEqual([names({ order: "best" }), names({ order: "spread" }), names({ order: "worst" })], [["g-2", "g-1"], ["g-1", "g-2"], ["g-1", "g-2"]]);
});

test("the feed of a run takes its own frames and asks anew after a gap", () => {
  const sockets = [];
  let shown = null;
  const feed = new WallFeed({
    root: "http://x/", onPhase() {}, onTiles: (run) => { shown = run; },
    what: { live: "live/rollouts/r", poll: "api/rollouts/r", frame: "run", field: "run" },
    ports: { open: (address) => { const socket = { address, close() {} }; sockets.push(socket); return socket; }, fetch: async () => ({}), random: () => 0, setTimer: () => 0 },
  });
  feed.open();
  assert.equal(sockets[0].address, "ws://x/live/rollouts/r");
  sockets[0].onmessage({ data: JSON.stringify({ frame: "run", version: 4, run: { over: 1, groups: { a: {} } } }) });
  sockets[0].onmessage({ data: JSON.stringify({ frame: "run.changed", version: 5, run: { over: 2 } }) });
  assert.deepEqual(shown, { over: 2, groups: { a: {} } });
  sockets[0].onmessage({ data: JSON.stringify({ frame: "run.changed", version: 7, run: { over: 3 } }) });
  assert.deepEqual([sockets.length, shown.over], [2, 2]);
});

test("where no socket gets through, a group is polled as it is told by itself, and a refusal is not taken for one", async () => {
  const shown = [], timers = [];
  const answers = [{ ok: false, text: async () => "{}" }, { ok: true, text: async () => JSON.stringify({ group: "g-1", over: 1 }) }];
  const feed = new WallFeed({
    root: "http://x/", onPhase() {}, onTiles: (group) => shown.push(group),
    what: { live: "live/groups/g-1", poll: "api/groups/g-1", frame: "group", field: "group", bare: true },
    ports: { open: () => { const socket = { close() {} }; setImmediate(() => socket.onclose()); return socket; }, fetch: async () => answers.shift() ?? { ok: false, text: async () => "{}" }, random: () => 0, setTimer: (action) => timers.push(action) },
  });
  feed.open();
  for (let round = 0; round < 12 && answers.length; round += 1) {
    await new Promise((done) => setImmediate(done));
    await new Promise((done) => setImmediate(done));
    for (const action of timers.splice(0)) action();
  }
  await new Promise((done) => setImmediate(done));
  feed.close();
  assert.deepEqual(shown, [{ group: "g-1", over: 1 }]);
});

test("tokens are classed by probability and by entropy around them", () => {
  assert.deepEqual([0, Math.log(0.6), Math.log(0.01), null].map(sureness), [0, 1, 4, 5]);
  assert.deepEqual(entropies([-1, -2, null, -3], 3), [1.5, 1.5, 2.5, 3]);
  assert.deepEqual([entropies([null]), entropies([])], [[null], []]);
  assert.deepEqual([0.05, 0.7, 3, null].map(uncertainty), [0, 2, 4, 5]);
  assert.deepEqual(versionsOf([["a", 1], ["b", 2]], 4), ["a", "b", "b", null]);
  assert.match(maskWords({ mask: [0, 0, 1, 0] }, 2), /^1 of 2 tokens of the answer count in training; the 2 tokens/);
  assert.match(maskWords({ mask: null, trainable: false }, 2), /^No token/);
});

test("what was proposed stands beside what was executed", () => {
  const data = { action: { tool: "go", arguments: { to: 2 } }, exchanges: [{ reply: null }, { reply: { tool_calls: [{ name: "go", arguments: '{"to": 1}' }] } }, { reply: { content: "go\u202e to 2" } }] };
  assert.deepEqual(proposals(data), ['go {"to":1}', "go to 2"]);
  assert.equal(executed(data.action), 'go {"to":2}');
  assert.deepEqual([proposals({}), executed({ text: "x" })], [[], '{"text":"x"}']);
});
