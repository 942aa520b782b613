// @ts-check
// Tests of static/live/thoughts.js.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseFrame } from "../../static/live/protocol.js";
import { Thoughts, legible } from "../../static/live/thoughts.js";

const frame = (/** @type {any} */ fields) => ({ frame: "thought", actor: "home", turn: 5, part: 0, whole: false, done: false, elapsed_s: 0, thought: "", answer: "", ...fields });

test("parts are put together in order, and time goes on between them", () => {
  const thoughts = new Thoughts();
  thoughts.take(frame({ whole: true, elapsed_s: 1 }), 5_000);
  thoughts.take(frame({ part: 1, thought: "A yorker " }), 5_100);
  thoughts.take(frame({ part: 2, thought: "is due.", answer: "bowl" }), 5_200);
  assert.deepEqual(thoughts.after(4, 7_000), { actor: "home", thought: "A yorker is due.", answer: "bowl", seconds: 3, done: false, withheld: false });
});

test("after a lost part nothing is shown in the wrong place until all of it is told anew", () => {
  const thoughts = new Thoughts();
  thoughts.take(frame({ whole: true, thought: "one " }), 0);
  thoughts.take(frame({ part: 2, thought: "three " }), 0);
  assert.equal(thoughts.after(4, 0)?.thought, "one ");
  thoughts.take(frame({ part: 20, whole: true, thought: "one two three " }), 0);
  thoughts.take(frame({ part: 21, thought: "four" }), 0);
  assert.equal(thoughts.after(4, 0)?.thought, "one two three four");
});

test("a decision that is known, another episode and a part without a beginning are passed over", () => {
  const thoughts = new Thoughts();
  thoughts.take(frame({ part: 3, thought: "late" }), 0);
  assert.equal(thoughts.after(4, 0), null);
  thoughts.take(frame({ whole: true, thought: "x" }), 0);
  assert.equal(thoughts.after(5, 0), null);
  thoughts.clear();
  assert.equal(thoughts.after(4, 0), null);
});

test("its time stands still once it is made, even when parts were lost", () => {
  const thoughts = new Thoughts();
  thoughts.take(frame({ whole: true }), 0);
  thoughts.take(frame({ part: 7, done: true, elapsed_s: 2.5 }), 2_500);
  assert.equal(thoughts.after(4, 9_000)?.done, true);
});

test("an endless thought is bounded", () => {
  const thoughts = new Thoughts();
  thoughts.take(frame({ whole: true }), 0);
  for (let part = 1; part < 200; part += 1) thoughts.take(frame({ part, thought: "x".repeat(1_000) }), 0);
  assert.equal(thoughts.after(4, 0)?.thought.length, 4_000);
});

const CALL = '{"reason": "12 an over, \\"slog\\" it\\u2026", "aggression": 0.85, "shot": "loft straight"}';
const FORMS = {
  tools: `plan_shot ${CALL}`,
  json: '{"reason": "12 an over, \\"slog\\" it\\u2026", "tool": "plan_shot", "arguments": {"aggression": 0.85, "shot": "loft straight"}}',
  xml: `<tool_call>{"name": "plan_shot", "arguments": ${CALL}}</tool_call>`,
};

for (const [style, answer] of Object.entries(FORMS)) {
  test(`the call of the style ${style} is read, wherever it is cut`, () => {
    const whole = legible(answer);
    assert.equal(whole.prose, "12 an over, \"slog\" it…");
    assert.equal(whole.tool, "plan_shot");
    assert.deepEqual(whole.given, [["aggression", "0.85"], ["shot", "loft straight"]]);
    for (let end = 0; end <= answer.length; end += 1) {
      const { prose, tool } = legible(answer.slice(0, end));
      assert.ok(whole.prose.startsWith(prose) || style === "tools", `${end}: ${prose}`);
      assert.ok(tool === "" || tool === "plan_shot");
    }
  });
}

test("prose before a call stays, and text without a call is prose", () => {
  assert.equal(legible("Two slips.\n<tool_call>{\"name\": \"x\", \"arguments\": {\"reason\": \"new ball\"}}").prose, "Two slips.\n\nnew ball");
  assert.deepEqual(legible("Let me think about the field"), { prose: "Let me think about the field", tool: "", given: [] });
});

test("hostile answers are read in no time", () => {
  const began = performance.now();
  for (const evil of ['"reason":"'.repeat(4_000), `{"reason":"${"\\\\".repeat(20_000)}`, "{".repeat(50_000), '"a":'.repeat(10_000)]) legible(evil);
  assert.ok(performance.now() - began < 2_000);
});

test("a frame of another shape is refused, as any other is", () => {
  assert.throws(() => parseFrame(JSON.stringify(frame({ thought: 7 }))));
  assert.throws(() => parseFrame(JSON.stringify(frame({ elapsed_s: "soon" }))));
  assert.equal(parseFrame(JSON.stringify(frame({})))?.frame, "thought");
});
