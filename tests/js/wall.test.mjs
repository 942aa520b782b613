import assert from "node:assert/strict";
import { test } from "node:test";

import { choose, worthALook } from "../../static/live/sight.js";
import { WallFeed } from "../../static/live/wall.js";

const tile = (fields = {}) => ({ environment: "cricket", title: "T20", seats: ["Anchor"], seed: 1, started_at: "2026-01-01T00:00:00Z", status: "live", headline: "Home 1/0", ...fields });

test("tiles are filtered by what people know of them, and ordered", () => {
  const tiles = {
    a: tile({ seed: 71, glance: { suspense: 0.2, progress: 0.9 } }),
    b: tile({ headline: "Palmyra 40/2", started_at: "2026-01-02T00:00:00Z", glance: { suspense: 0.8, progress: 0.7 } }),
    c: tile({ environment: "counting", seats: ["Miser"], status: "ended", glance: { suspense: 1, progress: 1 } }),
  };
  const ids = (wanted) => choose(tiles, wanted).map(([id]) => id);
  assert.deepEqual(ids({ text: "palmyra" }), ["b"]);
  assert.deepEqual(ids({ text: " MISER " }), ["c"]);
  assert.deepEqual(ids({ text: "71" }), ["a"]);
  assert.deepEqual(ids({ environment: "cricket" }), ["b", "a"]);
  assert.deepEqual(ids({ order: "closest" })[0], "b");
  assert.deepEqual(ids({ order: "furthest" })[0], "c");
  assert.deepEqual(choose({}, {}), []);
});

test("the closest finish is looked at, and not left at every ball", () => {
  const close = tile({ glance: { suspense: 0.9, progress: 0.9 } });
  const dull = tile({ glance: { suspense: 0.1, progress: 0.3 } });
  assert.equal(worthALook([["dull", dull], ["close", close]], null, 0), "close");
  assert.equal(worthALook([["dull", dull], ["close", close]], { id: "dull", since_ms: 0 }, 5_000), "dull");
  assert.equal(worthALook([["dull", dull], ["close", close]], { id: "dull", since_ms: 0 }, 25_000), "close");
  assert.equal(worthALook([["close", tile({ ...close, status: "ended" })], ["dull", dull]], { id: "close", since_ms: 0 }, 9_000), "dull");
  assert.equal(worthALook([], { id: "close", since_ms: 0 }, 1), null);
  const seen = worthALook([["one", dull], ["two", tile({ glance: { suspense: 0.11, progress: 0.3 } })]], { id: "one", since_ms: 0 }, 60_000);
  assert.equal(seen, "one", "a little more is no reason to move");
});

function stage() {
  const it = { sockets: [], timers: [], fetched: 0, phases: [], tiles: null, answer: { version: 1, tiles: { polled: {} } } };
  const ports = {
    open: (address) => { const socket = { address, readyState: 1, closed: false, close() { this.closed = true; } }; it.sockets.push(socket); return socket; },
    fetch: async () => { it.fetched += 1; if (!it.answer) throw new Error("away"); return { json: async () => it.answer }; },
    random: () => 0.5,
    setTimer: (action) => it.timers.push(action),
  };
  it.feed = new WallFeed({ root: "http://house/spec/", onTiles: (tiles) => { it.tiles = tiles; }, onPhase: (phase) => it.phases.push(phase), ports });
  it.hear = (frame) => it.sockets.at(-1).onmessage({ data: JSON.stringify(frame) });
  it.lose = () => it.sockets.at(-1).onclose({});
  it.fire = () => it.timers.shift()();
  return it;
}

test("changes are applied in order; one that is missing begins anew", () => {
  const it = stage();
  it.feed.open();
  assert.equal(it.sockets[0].address, "ws://house/spec/live/wall");
  it.hear({ frame: "wall", version: 4, tiles: { a: { turn: 1 }, b: { turn: 1 } } });
  it.hear({ frame: "wall.changed", version: 5, tiles: { a: { turn: 2 }, b: null } });
  assert.deepEqual(it.tiles, { a: { turn: 2 } });
  it.hear({ frame: "wall.changed", version: 7, tiles: { a: { turn: 9 } } });
  assert.deepEqual(it.tiles, { a: { turn: 2 } });
  assert.equal(it.sockets.length, 2);
  assert.ok(it.sockets[0].closed);
  it.hear({ frame: "wall", version: 7, tiles: { a: { turn: 9 } } });
  it.hear({ frame: "news", version: 8 });
  assert.deepEqual(it.tiles, { a: { turn: 9 } });
});

test("without a socket it polls, and goes on trying", async () => {
  const it = stage();
  it.feed.open();
  it.lose();
  assert.equal(it.phases.at(-1), "connecting");
  it.fire();
  it.lose();
  await new Promise(setImmediate);
  assert.equal(it.phases.at(-1), "polling");
  assert.deepEqual(it.tiles, { polled: {} });
  it.answer = null;
  while (it.timers.length) it.fire();
  await new Promise(setImmediate);
  assert.equal(it.phases.at(-1), "away");
  it.hear({ frame: "wall", version: 1, tiles: {} });
  assert.equal(it.phases.at(-1), "open");
  assert.deepEqual(it.tiles, {});
  const { fetched } = it;
  while (it.timers.length) it.fire();
  assert.equal(it.fetched, fetched, "with a socket nobody polls");
});
