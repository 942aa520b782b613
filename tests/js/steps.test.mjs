import assert from "node:assert/strict";
import { test } from "node:test";

import { differences, parting, placeAt, placesOf } from "../../static/live/steps.js";

/** @param {number} seq @param {number} turn @param {string} type @param {any} data @param {any} glance */
const event = (seq, turn, type, data = {}, glance = undefined) => ({ v: 1, episode_id: "ep", epoch: "e", at: "", seq, turn, type, data, patch: glance ? { world: { glance } } : {} });

test("a world's own steps end with the turn that reached them", () => {
  const events = [
    event(1, 0, "episode.started"), event(2, 0, "x.arranged", {}, { step: 0, value: 0 }), event(3, 1, "decision.made"), event(4, 1, "x.ball", {}, { step: 1, value: 4 }),
    event(5, 1, "step.taken"), event(6, 2, "decision.made"), event(7, 2, "step.taken"), event(8, 3, "x.ball", {}, { value: 5 }), event(9, 4, "x.ball", {}, { step: 2 }), event(10, 4, "episode.ended"),
  ];
  assert.deepEqual(placesOf(events), [{ step: 0, seq: 2, value: 0 }, { step: 1, seq: 8, value: 5 }, { step: 2, seq: 10, value: 5 }]);
});

test("without steps of its own a world goes by turns", () => {
  const events = [event(1, 0, "episode.started"), event(2, 1, "decision.made"), event(3, 1, "step.taken"), event(4, 2, "decision.made")];
  assert.deepEqual(placesOf(events).map(({ step, seq }) => [step, seq]), [[0, 1], [1, 3], [2, 4]]);
});

test("the place at a step is the last one that was reached", () => {
  const places = [{ step: 1, seq: 5, value: 1 }, { step: 4, seq: 9, value: 2 }];
  assert.deepEqual([0, 1, 3, 4, 9].map((step) => placeAt(places, step)?.seq ?? null), [null, 5, 5, 9, 9]);
});

test("they part where what happened differs, not where only clocks and words do", () => {
  const a = [event(1, 0, "episode.started", { seats: 1 }), event(2, 1, "decision.made", { actor: "x", action: { tool: "bowl" }, reasoning: "why", latency_s: 1 }), event(3, 1, "step.taken", { reward: 0, duration_s: 0.1 }), event(4, 2, "decision.made", { actor: "x", action: { tool: "field" } })];
  const same = a.map((one) => ({ ...one, data: { ...one.data, latency_s: 9, duration_s: 7, ...(one.type === "decision.made" ? { reasoning: "other" } : {}) } }));
  assert.equal(parting(a, same), null);
  const other = [...same.slice(0, 3), event(4, 2, "decision.made", { actor: "x", action: { tool: "bowl" } })];
  assert.deepEqual([parting(a, other)?.a?.seq, parting(a, other)?.b?.data.action.tool], [4, "bowl"]);
  assert.deepEqual(parting(a, a.slice(0, 3)), { a: a[3], b: null });
  const paused = [a[0], event(2, 0, "episode.paused"), ...a.slice(1)];
  assert.equal(parting(a, paused), null);
});

test("the difference is told at every step that both have reached", () => {
  const a = [{ step: 0, seq: 1, value: 0 }, { step: 1, seq: 2, value: 4 }, { step: 3, seq: 4, value: 9 }];
  const b = [{ step: 0, seq: 1, value: 0 }, { step: 2, seq: 3, value: 1 }];
  assert.deepEqual(differences(a, b), [[0, 0], [1, 4], [2, 3]]);
  assert.deepEqual(differences(a, [{ step: 0, seq: 1, value: null }]), []);
});
