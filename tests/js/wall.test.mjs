import assert from "node:assert/strict";
import { test } from "node:test";

import { Director, END_MS, STAY_MS } from "../../static/live/director.js";
import { choose } from "../../static/live/sight.js";
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

const close = tile({ glance: { suspense: 0.9, progress: 0.9 } });
const dull = tile({ glance: { suspense: 0.1, progress: 0.3 } });

/** What a director shows of `tiles` at a time. */
function shown(director, tiles, now, wanted = "") {
  director.take(tiles, now);
  return director.choose(Object.entries(tiles), now, wanted);
}

test("the closest finish is shown large, with the reason, and not left at every ball", () => {
  assert.deepEqual(shown(new Director(), { dull, close }, 0), { id: "close", why: "it could go either way" });
  const director = new Director();
  assert.equal(shown(director, { dull }, 0).id, "dull");
  assert.equal(shown(director, { dull, close }, STAY_MS - 1).id, "dull");
  assert.equal(shown(director, { dull, close }, STAY_MS).id, "close");
  const nearly = { dull: tile({ glance: { suspense: 0.92, progress: 0.9 } }), close };
  assert.equal(shown(director, nearly, 3 * STAY_MS).id, "close", "a little more is no reason to move");
  assert.equal(director.choose([], 4 * STAY_MS), null);
});

test("an end is shown for a while, and then the next", () => {
  const director = new Director();
  shown(director, { close, dull }, 0);
  const over = { close: { ...close, status: "ended" }, dull };
  assert.deepEqual(shown(director, over, STAY_MS / 2 - 5_000), { id: "close", why: "it has just ended" });
  assert.equal(shown(director, over, STAY_MS / 2 - 5_000 + END_MS).id, "dull");
});

test("a swing of the chance to win is shown, and forgotten in a minute", () => {
  const director = new Director();
  const quiet = tile({ chance: 0.5, glance: { suspense: 0.2, progress: 0.3 } });
  const calm = tile({ glance: { suspense: 0.3, progress: 0.9 } });
  assert.equal(shown(director, { quiet, calm }, 0).id, "calm");
  assert.deepEqual(shown(director, { quiet: { ...quiet, chance: 0.82 }, calm }, STAY_MS), { id: "quiet", why: "the chance to win moved 32 points" });
  assert.equal(shown(director, { quiet: { ...quiet, chance: 0.82 }, calm }, STAY_MS + 61_000).id, "calm");
});

test("something big is shown while it is fresh, and a director says that it chose for no reason of its own", () => {
  const director = new Director();
  const [a, b] = [tile({ line: { at: "0.1", text: "none" } }), tile({ line: { at: "0.1", text: "none" } })];
  assert.deepEqual(shown(director, { a, b }, 0), { id: "a", why: "it has just begun" });
  assert.deepEqual(shown(director, { a, b: { ...b, line: { at: "0.2", text: "out", priority: 0 } } }, STAY_MS), { id: "b", why: "something big has just happened" });
});

test("what somebody chose stays, whatever happens elsewhere, until it is gone", () => {
  const director = new Director();
  shown(director, { dull, close }, 0);
  assert.deepEqual(shown(director, { dull, close }, 1, "dull"), { id: "dull", why: "you chose it" });
  assert.equal(shown(director, { dull, close }, 10 * STAY_MS, "dull").id, "dull");
  assert.equal(shown(director, { close }, 10 * STAY_MS + 1, "dull").id, "close");
});

test("however much happens, what is large changes at most once in its least stay", () => {
  const director = new Director();
  const changes = [];
  let last = "";
  for (let now = 0; now < 600_000; now += 500) {
    const tiles = Object.fromEntries(Array.from({ length: 40 }, (_, place) => [`ep-${place}`, tile({ chance: ((now / 500) * (place + 3) * 7919 % 100) / 100, glance: { suspense: ((now / 500 + place * 31) % 17) / 17, progress: 0.5 }, line: { at: String(now), text: "x", priority: (now / 500 + place) % 4 } })]));
    const { id } = shown(director, tiles, now);
    if (id !== last) changes.push(now);
    last = id;
  }
  assert.ok(changes.length > 3);
  assert.ok(changes.every((at, place) => place === 0 || at - changes[place - 1] >= STAY_MS));
});

function stage() {
  const it = { sockets: [], timers: [], fetched: 0, phases: [], tiles: null, answer: { version: 1, tiles: { polled: {} } } };
  const ports = {
    open: (address) => { const socket = { address, readyState: 1, closed: false, close() { this.closed = true; } }; it.sockets.push(socket); return socket; },
    fetch: async () => { it.fetched += 1; if (!it.answer) throw new Error("away"); return { text: async () => JSON.stringify(it.answer) }; },
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
