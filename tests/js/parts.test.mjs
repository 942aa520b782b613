import assert from "node:assert/strict";
import { test } from "node:test";

import { drawParts } from "../../static/ui/parts.js";

/** Parts that take a while to draw, on a page whose time and view are moved by hand. */
function stage(costs, begun = true) {
  let now = 0;
  let tell = () => {};
  const later = [];
  const drawn = [];
  const failed = [];
  const parts = Object.entries(costs).map(([element, cost]) => ({
    element,
    update(world, moves) {
      if (cost === "throws" && world) throw new Error("broken");
      if (cost === "throws") return;
      now += cost;
      drawn.push(`${element}${world}${moves ? "!" : ""}`);
    },
  }));
  const ports = { now: () => now, later: (action) => later.push(action), watch: (_, told) => { tell = told; return () => drawn.push("stopped"); } };
  const drawing = drawParts(parts, (error) => failed.push(error), ports);
  const take = () => drawn.splice(0);
  if (begun) drawing.update(0, false), take();
  return { drawing, take, failed, see: (element, seen) => tell(element, seen), rest: () => later.shift()?.(), idle: () => later.length === 0 };
}

test("what is in view is drawn at once, in order, and may move; the rest when there is time, and stands", () => {
  const it = stage({ a: 1, b: 1, c: 1 });
  it.see("b", false);
  it.drawing.update(1, true);
  assert.deepEqual(it.take(), ["a1!", "c1!"]);
  it.rest();
  assert.deepEqual(it.take(), ["b1"]);
  assert.ok(it.idle());
});

test("a slice ends when its time is over, and the page can answer between", () => {
  const it = stage({ a: 8, b: 8, c: 8 });
  it.drawing.update(1, false);
  assert.deepEqual(it.take(), ["a1", "b1"]);
  it.rest();
  assert.deepEqual(it.take(), ["c1"]);
});

test("what waited is drawn with the newest, once", () => {
  const it = stage({ a: 20, b: 1 });
  it.drawing.update(1, false);
  it.drawing.update(2, false);
  assert.deepEqual(it.take(), ["a1", "b2", "a2"], "who waited longest comes first, so nobody starves");
  it.rest();
  assert.deepEqual(it.take(), []);
  assert.ok(it.idle());
});

test("the first drawing is whole, however long it takes", () => {
  const it = stage({ a: 20, b: 20 }, false);
  it.drawing.update(1, false);
  assert.deepEqual(it.take(), ["a1", "b1"]);
  assert.ok(it.idle());
});

test("what throws late is told as what throws at once", () => {
  const it = stage({ a: 20, b: "throws" });
  it.drawing.update(1, false);
  assert.equal(it.failed.length, 0);
  it.rest();
  assert.equal(it.failed.length, 1);
});

test("after its end nothing is drawn", () => {
  const it = stage({ a: 20, b: 1 });
  it.drawing.update(1, false);
  it.drawing.destroy();
  it.take();
  it.rest();
  assert.deepEqual(it.take(), []);
});
