import assert from "node:assert/strict";
import { test } from "node:test";

import { broughtInto } from "../../static/ui/own_model.js";

test("a model of one's own takes the place of the choice of it", () => {
  const fields = { captain_preset: "hf:", opponent_choice: "own:", pace: "max" };
  const filled = { captain_preset: { hub: "a/b" }, opponent_choice: { base_url: "http://x/v1", model: "m", style: "tools", api_key: "k" } };
  assert.deepEqual(broughtInto(fields, filled), { captain_preset: "hf:a/b", pace: "max", opponent_endpoint: { base_url: "http://x/v1", model: "m", style: "tools", api_key: "k" } });
});

test("other choices stay as they are, also with a model filled in before", () => {
  const filled = { captain_preset: { hub: "a/b", api_key: "k" } };
  assert.deepEqual(broughtInto({ captain_preset: "heuristic" }, filled), { captain_preset: "heuristic" });
  assert.deepEqual(broughtInto({ captain_preset: "own:" }, {}), { captain_endpoint: { base_url: "", model: "", style: "json" } });
});
