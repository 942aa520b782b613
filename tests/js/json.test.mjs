import assert from "node:assert/strict";
import test from "node:test";

import { parseJson } from "../../static/live/json.js";

test("whole numbers past 2^53 keep their digits", () => {
  assert.deepEqual(parseJson('{"user_id":107505301260286111,"n":[-9007199254740993, 18446744073709551616]}'), {
    user_id: "107505301260286111", n: ["-9007199254740993", "18446744073709551616"],
  });
});

test("everything else is as JSON has it", () => {
  for (const text of [
    '{"a":9007199254740991,"b":-9007199254740991,"c":1234567890123456}', '[0.12345678901234567890, 1.5e300, 1e-7]',
    '["107505301260286111", "a 107505301260286111 b", "\\"107505301260286111", "\\\\", 3]', "[12345678901234567e3, -0]",
    '{"107505301260286111":{"\\u0022":107505}}', "[]", '"x"', "3", "[1234567890123456789.5]", "null",
  ]) assert.deepEqual(parseJson(text), JSON.parse(text), text);
});

test("what is not JSON is refused, also beside a long number", () => {
  for (const text of ["", "{", "[107505301260286111", '{"a":107505301260286111x}', "[--107505301260286111]", "[NaN]"])
    assert.throws(() => parseJson(text), SyntaxError, text);
});

test("a long text takes no longer than a few readings of it", () => {
  const text = JSON.stringify({ said: "\\".repeat(400_000) + '"'.repeat(200_000), id: "1".repeat(400_000) });
  assert.deepEqual(parseJson(text), JSON.parse(text));
});
