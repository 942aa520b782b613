import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { applyPatch } from "../../static/live/merge_patch.js";

const vectors = JSON.parse(readFileSync(new URL("../vectors/merge_patch.json", import.meta.url), "utf8"));

for (const { name, target, patch, result } of vectors) {
  test(`merge patch: ${name}`, () => {
    const before = JSON.stringify([target, patch]);
    assert.equal(JSON.stringify(applyPatch(target, patch)), JSON.stringify(result));
    assert.equal(JSON.stringify([target, patch]), before, "neither is changed");
  });
}

test("merge patch: what is not named is shared, not copied", () => {
  const target = { feed: { a: 1 }, world: { score: 1 } };
  const next = applyPatch(target, { world: { score: 2 } });
  assert.equal(next.feed, target.feed);
  assert.notEqual(next.world, target.world);
});

test("merge patch: a stranger's __proto__ pollutes nothing", () => {
  const next = applyPatch({}, JSON.parse('{"a":{"__proto__":{"polluted":true}}}'));
  assert.equal({}.polluted, undefined);
  assert.equal(next.a.polluted, undefined);
  assert.ok(Object.hasOwn(next.a, "__proto__"));
});
