// @ts-check
// A campaign in words, for those who read it: everything that the panel shows; pure.

import { bestGlobal, channelName, claimWords, figure, measured, phaseWords, standing, verdicts } from "./words.js";

/** @typedef {{title: string, lines: string[]}} Section */

/** @param {any} world @returns {Section[]} */
export function sections(world) {
  if (!world.task) return [];
  return [
    { title: "Campaign", lines: [phaseWords(world.phase), world.task.campaign, resourceWords(world), significanceWords(world)] },
    ...(world.claim ? [{ title: "Claim", lines: claimLines(world) }] : []),
    ...Object.entries(world.channels ?? {}).map(([name, channel]) => ({ title: `Channel: ${channelName(name)}`, lines: channelLines(channel) })),
    { title: "Machine and data", lines: machineLines(world) },
    { title: "Step by step", lines: Object.entries(world.timeline ?? {}).sort(([a], [b]) => a.localeCompare(b)).map(([, step]) => step.text) },
  ];
}

/** @param {any} world */
function resourceWords({ resources = {}, totals = {} }) {
  return `Left: ${figure(resources.budget_left_musd)} of ${figure(totals.budget_left_musd)} MUSD, ${figure(resources.luminosity_left_fb)} of ${figure(totals.luminosity_left_fb)} fb^-1, ${figure(resources.days_left)} of ${figure(totals.days_left)} days`;
}

/** @param {any} world */
function significanceWords(world) {
  const best = bestGlobal(world);
  return best === undefined ? `Significance: ${standing(best)}` : `Significance: ${best.toFixed(1)} sigma global, ${standing(best)}`;
}

/** @param {any} world */
function claimLines({ claim, verdict, task }) {
  const graded = verdict ? [`Verdict: ${verdict.verdict}, score ${figure(verdict.score)}`, verdicts({ verdict, claim, task }).map(([name, right]) => claim.kind === "null" ? name : `${name} ${right ? "correct" : "wrong"}`).join(", ")] : [];
  return [claimWords(claim), ...graded];
}

/** @param {any} channel */
function channelLines({ spectrum, open, background, scan, significance, fit, angle, limit, check }) {
  return [
    spectrum ? (open ? `Open: ${figure(spectrum.counts.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0), 6)} events in ${figure(spectrum.luminosity_fb)} fb^-1` : `Blinded from ${figure(spectrum.blinded_gev[0], 5)} to ${figure(spectrum.blinded_gev[1], 5)} GeV`) : "",
    background ? `Background: ${String(background.function).replaceAll("_", " ")}, p = ${figure(background.p_value, 2)}` : "",
    scan ? `Largest excess: ${figure(scan.best_z, 2)} sigma local at ${figure(scan.best_mass_gev, 5)} GeV` : "",
    significance ? `${figure(significance.mass_gev, 5)} GeV: ${figure(significance.z_local, 2)} sigma local, ${figure(significance.z_global, 2)} global; the choice of background could fake ${figure(significance.spurious)} events` : "",
    fit?.converged ? `Peak: ${measured(fit.corrected_mass_gev, fit.corrected_error_gev)} GeV, ${measured(fit.signal, fit.signal_error)} events` : "",
    angle ? `Spin: ${String(angle.best).replaceAll("_", " ")} fits the angles best` : "",
    check ? `${check.first} against ${check.second}: p = ${figure(check.p_value, 2)}` : "",
    limit ? `Limit: ${figure(limit.rate_limit_fb)} fb, ${figure(limit.signal_limit)} events, at ${figure(limit.mass_gev, 5)} GeV, 95 % CL` : "",
  ].filter(Boolean);
}

/** @param {any} world */
function machineLines({ machine, trigger, runs, calibration }) {
  return [
    machine ? `${figure(machine.sqrt_s_tev)} TeV` : "Not configured yet",
    ...Object.entries(trigger?.thresholds_gev ?? {}).map(([name, cut]) => `Trigger: ${channelName(name)} from ${figure(cut)} GeV, ${figure(trigger.rates_hz?.[name])} Hz`),
    ...Object.values(runs ?? {}).map((/** @type {any} */ run) => `${run.run}: ${figure(run.luminosity_collected_fb)} fb^-1 at ${figure(run.sqrt_s_tev)} TeV`),
    ...Object.values(calibration ?? {}).map((/** @type {any} */ one) => `${one.candle}: scale ${measured(one.scale, one.scale_error)}`),
  ];
}
