import assert from "node:assert/strict";
import { test } from "node:test";

import { parWords } from "../../spectator/environments/cricket/panel/par.js";
import { sections } from "../../spectator/environments/cricket/panel/sections.js";
import { feedSection } from "../../static/ui/plain.js";

const world = {
  teams: { home: { name: "Harbour Lights" }, away: { name: "Granite Vale" } }, format: { overs: 20 }, innings: 2, batting: "home", target: 63,
  toss: { winner: "home", elected: "field" }, badges: { free_hit: true, powerplay: false },
  score: { home: { runs: 41, wickets: 3, overs: "3.4" }, away: { runs: 62, wickets: 4, overs: "5.0" } },
  equation: { need: 22, balls: 8, current: 11.2, required: 16.5 }, over: { number: 4, marks: ["1", "·", "wd", "6"] },
  batters: { striker: { name: "Lindqvist", runs: 23, balls: 9 }, non_striker: { name: "Mbeki", runs: 4, balls: 5 } }, partnership: { runs: 12, balls: 7 },
  bowler: { name: "Okoro", overs: "1.4", runs: 24, wickets: 1, left: 2 },
  last_ball: { at: "3.4", words: "Okoro to Lindqvist: SIX", decisions: { batting: { actor: "home", reasoning: "swing" } }, values: { batting: 0.094 } },
  forecast: { home: 0.58, futures: 300, total_low: 55, total_median: 61, total_high: 66 },
  standing: { 2: { 3: 71 } }, par: { 2: {} },
  scorecards: {
    1: { side: "away", name: "Granite Vale", total: { runs: 62, wickets: 4, overs: "5.0" }, batting: {}, bowling: {}, extras: { total: 6 }, fall: {} },
    2: { side: "home", name: "Harbour Lights", batting: { "01": { name: "Lindqvist", how_out: "not out", runs: 23, balls: 9, fours: 2, sixes: 2 } }, fall: { 1: { wicket: 1, score: 8, name: "Okafor", at: "1.2" } },
      bowling: { "01": { name: "Okoro", overs: "1.4", maidens: 0, runs: 24, wickets: 1 } }, extras: { total: 2 }, overs: { 3: { score: 35 } } },
  },
};

test("a match in words says all that a board shows", () => {
  const told = sections(world);
  const text = told.flatMap((one) => [one.title, ...one.lines]).join("\n");
  for (const part of ["Harbour Lights 41 for 3, 3.4 overs, batting", "Need 22 off 8; required 16.5, current 11.2", "Free hit", "Okoro to Lindqvist: SIX", "worth +9.4 %",
    "Over 4: 1, no run, wide, 6", "Lindqvist 23 off 9, on strike", "Partnership 12 off 7", "Okoro bowls: 1 for 24 in 1.4, 2 left", "Harbour Lights 58 %, Granite Vale 42 %",
    "most likely 55 to 66. Chances count both captains as equally good.", "71st percentile", "Harbour Lights, 2nd innings: 41 for 3 in 3.4", "Lindqvist, not out: 23 off 9, 2 fours, 2 sixes", "1st wicket at 8, Okafor, 1.2 overs"]) assert.ok(text.includes(part), part);
  assert.ok(told.findIndex((one) => one.title.startsWith("Harbour Lights, 2nd")) < told.findIndex((one) => one.title.startsWith("Granite Vale, 1st")));
});

test("a match that has hardly begun has words too", () => {
  assert.deepEqual(sections({}), []);
  const told = sections({ teams: world.teams });
  assert.ok(told[0].lines.includes("Before the toss"));
  assert.deepEqual(told[1].lines, ["No ball has been bowled yet."]);
});

test("par names where it comes from, and its ends as ends", () => {
  assert.match(parWords(world), /^35 after 3: at the 71st percentile of 658 real second innings/);
  assert.match(parWords({ ...world, standing: { 2: { 3: 95 } } }), /highest 5 %/);
  assert.match(parWords({ ...world, standing: undefined }), /from the first over on/);
  assert.equal(parWords({ format: { overs: 5 } }), "");
  for (const [format, kind] of [[{ overs: 5 }, "men, 5 overs"], [{ overs: 20, profile: "women" }, "women, 20 overs"], [{ overs: 20, level: 210.4 }, "men, level 210, 20 overs"]]) {
    assert.equal(parWords({ ...world, format }), `35 after 3: at the 71st percentile of what average sides make of a first innings (${kind}).`);
  }
  assert.equal(parWords({ super_over: 1, format: {} }), "");
});

test("the commentary as lines, newest first", () => {
  const feed = { "0000000001": { at: "0.1", label: "·", text: "No run." }, "0000000002": { at: "0.2", label: "4", text: "Four." }, "0000000003": { text: "End." } };
  assert.deepEqual(feedSection({ feed }).lines, ["End.", "0.2  4  Four.", "0.1  No run."]);
});
