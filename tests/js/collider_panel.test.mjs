import assert from "node:assert/strict";
import { test } from "node:test";

import { binsOf, mergedValues, poissonInterval, pull, residuals, roundTicks, scaled, verticalScale } from "../../spectator/environments/collider/panel/histogram.js";
import { sections } from "../../spectator/environments/collider/panel/sections.js";
import { argument, bestGlobal, claimWords, figure, localFor, log10P, mainFigure, measured, truthLines, verdicts } from "../../spectator/environments/collider/panel/words.js";
import { spinWords } from "../../spectator/environments/collider/panel/angles.js";

test("p-values agree with the normal distribution, far into the tail", () => {
  // One-sided tails of the standard normal distribution (scipy.stats.norm.logsf / ln 10).
  for (const [z, log10p] of [[0, -0.30103], [1, -0.79955], [3, -2.86970], [5, -6.54265], [10, -23.11805], [30, -197.30921]]) {
    assert.ok(Math.abs(log10P(z) - log10p) < 1e-4, `${z}: ${log10P(z)}`);
  }
  assert.ok(Math.abs(log10P(-1) - Math.log10(0.8413447)) < 1e-6);
});

test("looking elsewhere costs what the published search says", () => {
  // 110 to 150 GeV with 3.17 upcrossings of 0 sigma: 4.1 local is 3.18 global by the formula of Gross and Vitells.
  assert.ok(Math.abs(localFor(3.18, 3.17) - 4.1) < 0.02, String(localFor(3.18, 3.17)));
  assert.ok(localFor(5, 3.17) > 5 && localFor(5, 3.17) < 5.8);
  assert.ok(localFor(5, 3.17, 4) > localFor(5, 3.17));
});

test("a bin that touches the blinded window is hidden whole", () => {
  const { bins, merged } = binsOf([0, 1, 2, 3, 4], [5, 6, 7, 8], [1.5, 2.5]);
  assert.equal(merged, 1);
  assert.deepEqual(bins.map((bin) => bin.hidden), [false, true, true, false]);
});

test("many bins are merged, none is lost, and a narrow last one does not look empty", () => {
  const edges = Array.from({ length: 256 }, (_, index) => index);
  const { bins, merged } = binsOf(edges, Array(255).fill(10));
  assert.equal(merged, 3);
  assert.equal(bins.reduce((total, bin) => total + bin.count, 0), 2550);
  assert.deepEqual([...new Set(bins.map((bin) => bin.value))], [30]);
  const odd = binsOf(edges.slice(0, 252), Array(251).fill(10));
  assert.equal(odd.bins.at(-1)?.value, 30);
  assert.deepEqual(mergedValues(Array(251).fill(10), odd.merged).at(-1), 30);
});

test("residuals are those of Poisson counts and hidden bins have none", () => {
  const { bins } = binsOf([0, 1, 2, 3], [100, 130, 100], [2, 3]);
  const [none, high, hidden] = residuals(bins, [100, 100, 100]);
  assert.equal(none, 0);
  assert.ok(Math.abs(Number(high) - 2.8661) < 1e-3, String(high));
  assert.equal(hidden, null);
  assert.deepEqual(residuals(bins, [0, NaN, 1]), [null, null, null]);
  // Three events where half a one is expected happen by chance once in 70: 2.2 sigma, not the 3.5 of (3 - 0.5) / sqrt(0.5).
  assert.ok(Math.abs(pull(3, 0.5) - 2.4) < 0.05 && pull(0, 0.5) === -1, String(pull(3, 0.5)));
});

test("error bars are Poisson intervals, for empty bins too", () => {
  // Central 68.27 % intervals of Garwood, by scipy.stats.chi2.
  for (const [count, low, high] of [[0, 0, 1.841], [1, 0.173, 3.300], [4, 2.086, 7.163], [100, 90.02, 111.03]]) {
    const found = poissonInterval(count);
    assert.ok(Math.abs(found[0] - low) < 0.02 && Math.abs(found[1] - high) < 0.02, `${count}: ${found}`);
  }
});

test("arguments are worded with their units", () => {
  assert.deepEqual(argument("thresholds_gev", { diphoton: 49.1234567, bb: 60 }), ["thresholds", "γγ 49.123, bb 60 GeV"]);
  assert.deepEqual(argument("window_gev", [110, 150]), ["window", "110 to 150 GeV"]);
  assert.deepEqual(argument("window_gev", null), ["window", "the whole task’s"]);
  assert.deepEqual(argument("luminosity_fb", 20), ["luminosity", "20 fb⁻¹"]);
  assert.deepEqual(argument("z_global", 5.2), ["global significance", "5.2 σ"]);
  assert.deepEqual(argument("channel", "four_lepton"), ["channel", "4ℓ"]);
  assert.deepEqual(argument("spin_probabilities", { 0: 0.7, 2: 0.3 }), ["spin probabilities", "spin 0 0.7, spin 2 0.3"]);
  assert.deepEqual(argument("other_masses_gev", []), ["other masses", "none"]);
});

test("a right null is a success in the verdict, and a missed resonance is not", () => {
  const none = { discovered: false, correct_mass: false, correct_channel: false, correct_spin: false };
  assert.deepEqual(verdicts({ verdict: { ...none, correct: true }, claim: { kind: "null" } }), [["nothing to claim, and nothing claimed", true]]);
  assert.deepEqual(verdicts({ verdict: { ...none, correct: false }, claim: { kind: "null" } }), [["missed a resonance", false]]);
  assert.deepEqual(verdicts({ verdict: { ...none, verdict: "rightly concluded that there is nothing to claim" }, claim: { kind: "null" } })[0][1], true, "records of older versions");
  assert.equal(verdicts({ verdict: none, claim: { kind: "evidence" } }).length, 4);
  assert.deepEqual(verdicts({ verdict: { ...none, correct: true, correct_mass: true }, claim: { kind: "evidence" }, task: { published_z: 3.2 } }), [["measured", true], ["mass", true]]);
  const null_ = mainFigure({ claim: { kind: "null", rate_limit_fb: 0.231 }, verdict: { correct: true } });
  assert.deepEqual([null_.value, null_.unit, null_.good], ["0.23", "fb", true]);
  assert.deepEqual(mainFigure({}), { value: "–", unit: "σ global", words: "no significance estimated yet", good: false });
});

test("a background of a smaller sample is scaled to what may be seen", () => {
  const { bins } = binsOf([0, 1, 2, 3], [90, 0, 110], [1, 2]);
  assert.deepEqual(scaled(bins, [9, 10, 11]), [90, 100, 110]);
  assert.deepEqual(scaled(bins, [0, 0, 0]), [0, 0, 0]);
});

test("a steep spectrum is drawn on a logarithmic scale, a flat one is not", () => {
  assert.equal(verticalScale([1, 1000], 100, 0).logarithmic, true);
  const flat = verticalScale([900, 1000], 100, 0);
  assert.equal(flat.logarithmic, false);
  assert.ok(flat.y(900) > flat.y(1000));
  assert.ok(Number.isFinite(verticalScale([], 100, 0).y(3)));
  assert.ok(Number.isFinite(verticalScale([0, 0], 100, 0).y(0)));
  assert.deepEqual(roundTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(roundTicks(5, 5), [5]);
});

test("numbers read as physicists write them", () => {
  assert.equal(measured(125.0934, 0.213), "125.09 ± 0.21");
  assert.equal(measured(3.0969, 0.00004), "3.096900 ± 0.000040");
  assert.equal(figure(0.00001234), "1.2e-5");
  assert.equal(figure(undefined), "–");
  assert.equal(spinWords("spin2_gg_diphoton"), "spin 2 (gg → diphoton)");
  assert.equal(spinWords("spin0"), "spin 0");
});

const world = {
  phase: "graded", task: { campaign: "Search for a resonance." }, resources: { budget_left_musd: 20, luminosity_left_fb: 5, days_left: 90 }, totals: { budget_left_musd: 120, luminosity_left_fb: 100, days_left: 365 },
  machine: { sqrt_s_tev: 13 }, trigger: { thresholds_gev: { diphoton: 40 }, rates_hz: { diphoton: 120 } }, runs: { "run-1": { run: "run-1", luminosity_collected_fb: 80, sqrt_s_tev: 13 } },
  calibration: { z_ee: { candle: "z_ee", scale: 0.9981, scale_error: 0.0004 } },
  channels: { diphoton: { open: true, spectrum: { counts: [3, 4], luminosity_fb: 80, window_gev: [100, 150] }, background: { function: "power_law", p_value: 0.4 }, scan: { best_z: 5.9, best_mass_gev: 125.1 },
    significance: { mass_gev: 125.1, z_local: 5.9, z_global: 5.2 }, fit: { converged: true, corrected_mass_gev: 125.1, corrected_error_gev: 0.3, signal: 400, signal_error: 60 } } },
  claim: { kind: "discovery", mass_gev: 125.1, mass_error_gev: 0.3, z_global: 5.2, z_local: 5.9 },
  verdict: { verdict: "discovery confirmed", score: 0.91, discovered: true, correct_mass: true, correct_channel: true, correct_spin: false },
  timeline: { "000002": { text: "The machine runs at 13 TeV" }, "000001": { text: "Search for a resonance." } },
};

test("a campaign in words says all that the panel shows", () => {
  const text = sections(world).flatMap((one) => [one.title, ...one.lines]).join("\n");
  for (const part of ["Graded", "Left: 20 of 120 MUSD", "5.2 sigma global, above the discovery threshold", "Discovery claimed at 125.10 ± 0.30 GeV", "discovery confirmed, score 0.91", "spin wrong",
    "Open: 7 events in 80 fb^-1", "power law, p = 0.4", "5.9 sigma local at 125.1 GeV", "two photons from 40 GeV, 120 Hz", "z_ee: scale 0.99810 ± 0.00040"]) assert.ok(text.includes(part), `${part}\n${text}`);
  assert.ok(text.indexOf("Search for a resonance.\nThe machine runs") > 0, "in order");
  assert.deepEqual(sections({}), []);
});

test("the best significance is the best of all channels", () => {
  assert.equal(bestGlobal({}), undefined);
  assert.equal(bestGlobal({ channels: { a: { significance: { z_global: 2 } }, b: {}, c: { significance: { z_global: 3.5 } } } }), 3.5);
});

test("claims and truths are said plainly", () => {
  assert.equal(claimWords({ kind: "null" }), "No signal is claimed.");
  assert.match(claimWords({ kind: "null", rate_limit_fb: 12.3, limit_mass_gev: 500 }), /Strongest limit: 12.3 fb at 500 GeV, 95 % CL/);
  assert.match(truthLines({ particles: [] })[0], /no resonance/);
  assert.match(truthLines({ particles: [{ mass_gev: 420.003, width_gev: 0.042, spin: 0, rates_fb: { dilepton_ee: 1, dilepton_mumu: 11 } }] })[0], /^420.003 GeV, width 0.042 GeV, spin 0; μμ 11 fb, ee 1 fb$/);
});
