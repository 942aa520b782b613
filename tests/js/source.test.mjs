import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Source } from "../../static/live/source.js";
import { Timeline } from "../../static/live/timeline.js";
import { event } from "./builders.mjs";

/** A browser in which no connection opens, and a record that answers what it is told to. */
function without(t, answer) {
  class Deaf {
    constructor() { queueMicrotask(() => { this.onclose?.({ reason: "" }); this.onerror?.(); }); }
    addEventListener() {}
    close() {}
    send() {}
  }
  const kept = { WebSocket: globalThis.WebSocket, EventSource: globalThis.EventSource, fetch: globalThis.fetch };
  Object.assign(globalThis, { WebSocket: Deaf, EventSource: Deaf, fetch: answer });
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => {
    mock.timers.reset();
    Object.assign(globalThis, kept);
  });
}

/** Let time pass, second by second, and everything that it brings about. */
async function pass(seconds) {
  for (let second = 0; second < seconds; second += 1) {
    mock.timers.tick(1_000);
    for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => { setImmediate(resolve); });
  }
}

test("while nothing opens the record is asked about every two seconds, by one voice, and the page says so throughout", async (t) => {
  let asked = 0;
  const timeline = new Timeline();
  without(t, async () => {
    asked += 1;
    return new Response(`${JSON.stringify(event(timeline.headSeq + 1))}\n`);
  });
  const phases = [];
  const source = new Source({ root: "http://x.example/", episodeId: "ep-1", timeline, onChange: () => phases.push(source?.link.phase) });
  source.connect();
  await pass(60);
  const before = asked;
  phases.length = 0;
  await pass(120);
  assert.ok(asked - before >= 45 && asked - before <= 90, `${asked - before} in two minutes`);
  assert.deepEqual([...new Set(phases)], ["record"]);
  assert.equal(timeline.headSeq, asked);
});

test("while the server is away as well the page says that it reconnects, and the record is asked only with an attempt", async (t) => {
  let asked = 0;
  without(t, async () => {
    asked += 1;
    throw new TypeError("away");
  });
  const source = new Source({ root: "http://x.example/", episodeId: "ep-1", timeline: new Timeline(), onChange() {} });
  source.connect();
  await pass(180);
  assert.equal(source.link.phase, "waiting");
  assert.ok(asked >= 8 && asked <= 60, `${asked} in three minutes`);
});
