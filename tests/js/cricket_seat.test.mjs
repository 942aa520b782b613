import assert from "node:assert/strict";
import { test } from "node:test";

import { callWords } from "../../spectator/environments/cricket/panel/intents.js";
import { callsOf, draftOf, draftWords, isOutside, meritOf, withCalls, worthWords } from "../../spectator/environments/cricket/panel/seat_draft.js";
import { sceneWords, winWords } from "../../spectator/environments/cricket/panel/seat_scene.js";

const BOWL = { phase: "bowl", you: { attack: 0.5, aggression: 0.5, delivery: null }, field: { preset: "standard", fielders: [] } };
const BOWLING = ["bowl_delivery", "plan_delivery", "set_bowling_strategy", "set_field"];
const BAT = { phase: "bat", you: { aggression: 0.5, shot: null, shot_aggression: null }, field: { preset: "standard" } };
const BATTING = ["play_delivery", "plan_shot", "set_strategy"];
const tools = (calls) => calls.map(({ tool }) => tool);

test("a draft sends only what differs from the way things are set", () => {
  const draft = draftOf(BOWL);
  assert.deepEqual(callsOf(draft, BOWL, BOWLING), [{ tool: "bowl_delivery", arguments: {} }]);
  const planned = { ...draft, length: "good", line: "stumps", intent: 0.6, preset: "ring" };
  assert.deepEqual(callsOf(planned, BOWL, BOWLING).map(({ arguments: given }) => given), [{ length: "good", line: "stumps" }, { preset: "ring" }, { attack: 0.6 }, {}]);
  assert.deepEqual(tools(callsOf(planned, BOWL, ["bowl_delivery", "plan_delivery"])), ["plan_delivery", "bowl_delivery"], "what is not legal is left out");
  assert.deepEqual(tools(callsOf(draftOf(BAT), BAT, BATTING)), ["play_delivery"]);
  assert.deepEqual(callsOf({ ...draftOf(BAT), shot: "drive", intent: 0.7 }, BAT, BATTING)[0], { tool: "plan_shot", arguments: { shot: "drive", aggression: 0.7 } });
  assert.deepEqual(tools(callsOf({ ...draftOf(BAT), intent: 0.7 }, BAT, BATTING)), ["set_strategy", "play_delivery"]);
});

test("orders for an over are one call", () => {
  const seen = { phase: "bowling_plan", you: { attack: 0.5 }, choices: { usual: "A B", bowlers: [{ name: "A B" }] }, field: { preset: "standard" } };
  assert.deepEqual(callsOf({ ...draftOf(seen), length: "full", preset: "death" }, seen, ["bowl_over"]),
    [{ tool: "bowl_over", arguments: { bowler: "A B", length: "full", attack: 0.5, preset: "death", ask: { wicket: true } } }]);
});

test("advice fills the draft", () => {
  const draft = withCalls(draftOf(BOWL), [{ tool: "plan_delivery", arguments: { length: "yorker", line: "leg" } }, { tool: "set_field", arguments: { preset: "attacking" } }, { tool: "bowl_delivery", arguments: {} }]);
  assert.deepEqual([draft.length, draft.line, draft.preset], ["yorker", "leg", "attacking"]);
});

test("drafts, worth and the duel in words", () => {
  const placed = [{ name: "cover", x: 22, y: 16 }, { name: "third", x: 33, y: -46 }];
  assert.deepEqual(placed.map(isOutside), [false, true]);
  assert.equal(draftWords("bowl", { ...draftOf(BOWL), length: "good", line: "outside off" }, placed), "good length, outside off, standard field, 1 fielder in the ring");
  assert.equal(draftWords("bat", { ...draftOf(BAT), shot: "sweep", intent: 0.7 }, []), "sweep, attack");
  assert.equal(worthWords(0.012, "chance"), "1.2 points of win chance better for you than the usual ball");
  assert.equal(worthWords(-0.13, "runs"), "0.13 runs worse for you than the usual ball");
  assert.equal(worthWords(-0.0001, "runs"), "as good as the usual ball");
  assert.deepEqual(meritOf({ a: { worth: 1 }, b: { worth: 3 }, c: { worth: 2 } }), { a: 0, b: 1, c: 0.5 });
  assert.equal(sceneWords({ phase: "bat", striker: { name: "A", runs: 3, balls: 2 }, bowler: { name: "B", kind: "off spin" }, need: 31, score: { balls_left: 12 }, you: { free_calls: 1 } }),
    "A, 3 off 2, faces B, off spin. 31 needed from 12. 1 free change left in this over.");
});

test("only the winner says that it won", () => {
  const state = { world: { result: "Lakeshire won by 4 runs", teams: { home: { name: "Lakeshire" }, away: { name: "Palmyra" } } }, episode: { seats: { home: { label: "A person" }, away: { label: "Old Pro" } } } };
  assert.equal(winWords(state, ["home"]), "I beat Old Pro by 4 runs");
  assert.equal(winWords(state, ["away"]), "");
  assert.equal(winWords(state, ["home", "away"]), "");
  const ended = (result) => winWords({ ...state, world: { ...state.world, result } }, ["home"]);
  assert.equal(ended("Match tied"), "");
  assert.equal(ended("Match tied; Lakeshire won the super over"), "I beat Old Pro in the super over");
});

test("a plan is said in words, with its figures behind them", () => {
  assert.deepEqual(callWords("set_match_plan", { batting_powerplay: 0.5, batting_middle: 0.52, batting_death: 0.5, bowling_death: 0.68, death_bowlers: ["A. Roy", "B. Sen"] }),
    [["batting", "rotate throughout (0.5, 0.52)"], ["bowling", "attack at the death (0.68)"], ["death bowlers", "A. Roy, B. Sen"]]);
  assert.deepEqual(callWords("set_strategy", { aggression: 0, note: "wait" }), [["aggression", "defend (0)"], ["note", "wait"]]);
});
