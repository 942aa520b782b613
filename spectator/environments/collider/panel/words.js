// @ts-check
// Words and numbers of a campaign: names of channels, significances, masses; pure.

/** @type {Record<string, string>} */
const CHANNELS = { diphoton: "γγ", four_lepton: "4ℓ", dilepton_mumu: "μμ", dilepton_ee: "ee", bb: "bb", dijet: "jj" };
/** @type {Record<string, string>} */
const SPOKEN = { diphoton: "two photons", four_lepton: "four leptons", dilepton_mumu: "muon pairs", dilepton_ee: "electron pairs", bb: "b-quark pairs", dijet: "jet pairs" };

/** A channel as physicists write it. @param {string} name */
export const channelMark = (name) => CHANNELS[name] ?? name.replaceAll("_", " ");

/** A channel in words. @param {string} name */
export const channelName = (name) => SPOKEN[name] ?? name.replaceAll("_", " ");

/** A number with so many significant digits, without trailing noughts. @param {unknown} value @param {number} [digits] */
export function figure(value, digits = 3) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) return value.toExponential(1).replace("e", "e").replace("+", "");
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });
}

/** A value with its error, both to the error's second digit. @param {number} value @param {number} error */
export function measured(value, error) {
  if (!(error > 0)) return figure(value, 5);
  const places = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(error))));
  return `${value.toFixed(places)} ± ${error.toFixed(places)}`;
}

/** The one-sided p-value of `z` sigma as its decimal logarithm (Numerical Recipes' erfcc; relative error below 2e-7). @param {number} z */
export function log10P(z) {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.5 * x);
  const poly = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 + t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  const tail = Math.log10(0.5 * t) + (poly - x * x) / Math.LN10;
  return z >= 0 ? tail : Math.log10(1 - 10 ** tail);
}

/**
 * The local significance that is `zGlobal` after the look-elsewhere effect (Gross and Vitells: the local p-value plus the expected upcrossings).
 * @param {number} zGlobal @param {number} upcrossings mean number of upcrossings of 0 sigma in the window @param {number} [trials] how many times a p-value counts in the account of looks
 */
export function localFor(zGlobal, upcrossings, trials = 1) {
  const wanted = log10P(zGlobal);
  let [low, high] = [zGlobal, zGlobal + 10];
  for (let step = 0; step < 60; step += 1) {
    const z = (low + high) / 2;
    const global = Math.log10(Math.min(1, trials * (10 ** log10P(z) + upcrossings * Math.exp((-z * z) / 2))));
    if (global > wanted) low = z;
    else high = z;
  }
  return high;
}

/** The largest global significance so far; undefined before the first estimate. @param {any} world @returns {number | undefined} */
export function bestGlobal(world) {
  const found = Object.values(world.channels ?? {}).map((/** @type {any} */ one) => one.significance?.z_global);
  const all = [...found, world.combination?.z_global].filter((value) => typeof value === "number");
  return all.length ? Math.max(...all) : undefined;
}

/** What a global significance is called. @param {number | undefined} z */
export function standing(z) {
  if (z === undefined) return "no significance estimated yet";
  if (z >= 5) return "above the discovery threshold";
  return z >= 3 ? "evidence, not a discovery" : "no evidence";
}

/** @type {Record<string, string>} */
const PHASES = {
  planning: "Planning the machine", recording: "Recording collisions", "blind analysis": "Blind analysis", frozen: "Selection frozen",
  unblinded: "Unblinded", claimed: "Claim submitted", graded: "Graded",
};

/** @param {string | undefined} phase */
export const phaseWords = (phase) => PHASES[phase ?? ""] ?? "Planning the machine";

/** The claim in words. @param {any} claim */
export function claimWords(claim) {
  if (claim.kind === "null") return claim.signal_limit === undefined ? "No signal is claimed." : `No signal is claimed: fewer than ${figure(claim.signal_limit)} events at ${figure(claim.limit_mass_gev, 5)} GeV, 95 % CL.`;
  const word = claim.kind === "discovery" ? "Discovery" : "Evidence";
  return `${word} claimed at ${measured(claim.mass_gev, claim.mass_error_gev)} GeV, ${figure(claim.z_global, 2)} σ global (${figure(claim.z_local, 2)} local).`;
}

/** The four verdicts, in the order of the claim's parts. @param {any} verdict @returns {[string, boolean][]} */
export const verdicts = (verdict) => [["discovered", verdict.discovered], ["mass", verdict.correct_mass], ["channel", verdict.correct_channel], ["spin", verdict.correct_spin]];

/** The truth in a line for each particle. @param {any} truth @returns {string[]} */
export function truthLines(truth) {
  const particles = truth?.particles ?? [];
  if (!particles.length) return ["There was no resonance: any excess was a background fluctuation."];
  return particles.map((/** @type {any} */ one) => {
    const rates = Object.entries(one.rates_fb ?? {}).sort((a, b) => Number(b[1]) - Number(a[1])).map(([name, rate]) => `${channelMark(name)} ${figure(rate)} fb`);
    return `${figure(one.mass_gev, 6)} GeV, width ${figure(one.width_gev, 2)} GeV, spin ${one.spin ?? "?"}${rates.length ? `; ${rates.join(", ")}` : ""}`;
  });
}
