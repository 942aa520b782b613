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

/** A task with its channels in words. @param {string} task */
export const campaignWords = (task) => task.replace(new RegExp(`\\b(?:${Object.keys(SPOKEN).join("|")})\\b`, "g"), channelName);

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
  const found = Object.values(world.channels ?? {}).map((/** @type {any} */ one) => one.significance?.z_global).filter((value) => typeof value === "number");
  return found.length ? Math.max(...found) : undefined;
}

/** The figure of the campaign: the best significance, or the strongest limit of a claim of nothing. @param {any} world @returns {{value: string, unit: string, words: string, good: boolean}} */
export function mainFigure(world) {
  const { claim, task, verdict } = world;
  const best = bestGlobal(world);
  if (claim?.kind === "null" && claim.rate_limit_fb !== undefined) return { value: figure(claim.rate_limit_fb, 2), unit: "fb", words: "strongest limit, 95 % CL", good: verdict?.correct === true };
  if (task?.published_z && best !== undefined) {
    const local = Math.max(...Object.values(world.channels).map((/** @type {any} */ one) => one.significance?.z_local ?? 0));
    return { value: local.toFixed(1), unit: "σ local", words: `published: ${figure(task.published_z)} σ`, good: verdict?.correct === true };
  }
  return { value: best === undefined ? "–" : best.toFixed(1), unit: "σ global", words: standing(best), good: (best ?? 0) >= 5 };
}

/** What a global significance is called. @param {number | undefined} z */
export function standing(z) {
  if (z === undefined) return "no significance estimated yet";
  if (z >= 5) return "above the discovery threshold";
  return z >= 3 ? "evidence, not a discovery" : "no evidence";
}

/** Units of an action's arguments, by the end of the name. */
const UNITS = /** @type {const} */ ([["_gev", "GeV"], ["_tev", "TeV"], ["_fb", "fb⁻¹"]]);
/** @type {Record<string, string>} */
const NAMED = { sqrt_s_tev: "collision energy", mass_gev: "mass", mass_error_gev: "mass error", window_gev: "window", other_masses_gev: "other masses", thresholds_gev: "thresholds", luminosity_fb: "luminosity", z_local: "local significance", z_global: "global significance", cut: "score cut" };

/** An argument of an action with its unit, as name and value. @param {string} name @param {unknown} value @returns {[string, string]} */
export function argument(name, value) {
  const unit = name.startsWith("z_") ? "σ" : UNITS.find(([end]) => name.endsWith(end))?.[1] ?? "";
  /** @param {unknown} one @returns {string} */
  const said = (one) => {
    if (Array.isArray(one)) return name.startsWith("window") ? one.map(said).join(" to ") : one.map(said).join(", ") || "none";
    if (typeof one === "object" && one !== null) return Object.entries(one).map(([key, inner]) => `${name.startsWith("spin") ? `spin ${key}` : channelMark(key)} ${said(inner)}`).join(", ") || "not given";
    if (typeof one === "number") return figure(one, 5);
    if (one === null) return name.startsWith("window") ? "the whole task’s" : "none";
    return name === "channel" ? channelMark(String(one)) : String(one).replaceAll("_", " ");
  };
  const text = said(value);
  return [NAMED[name] ?? name.replaceAll("_", " "), unit && /\d/.test(text) ? `${text} ${unit}` : text];
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
  if (claim.kind === "null") return claim.rate_limit_fb === undefined ? "No signal is claimed." : `No signal is claimed. Strongest limit: ${figure(claim.rate_limit_fb)} fb at ${figure(claim.limit_mass_gev, 5)} GeV, 95 % CL.`;
  const word = claim.kind === "discovery" ? "Discovery" : "Evidence";
  return `${word} claimed at ${measured(claim.mass_gev, claim.mass_error_gev)} GeV, ${figure(claim.z_global, 2)} σ global (${figure(claim.z_local, 2)} local).`;
}

/** Verdicts in the order of the claim's parts; without a claim there is one. @param {any} world @returns {[string, boolean][]} */
export function verdicts({ verdict, claim, task = {} }) {
  if (claim.kind !== "null" && task.published_z) return [["measured", verdict.correct], ["mass", verdict.correct_mass]];
  if (claim.kind !== "null") return [["discovered", verdict.discovered], ["mass", verdict.correct_mass], ["channel", verdict.correct_channel], ...(task.real_data ? [] : [/** @type {[string, boolean]} */ (["spin", verdict.correct_spin])])];
  const right = verdict.correct ?? verdict.verdict.startsWith("rightly");
  return [[right ? "nothing to claim, and nothing claimed" : "missed a resonance", right]];
}

/** The truth in a line for each particle. @param {any} truth @returns {string[]} */
export function truthLines(truth) {
  const particles = truth?.particles ?? [];
  if (!particles.length) return ["There was no resonance: any excess was a background fluctuation."];
  return particles.map((/** @type {any} */ one) => {
    const rates = Object.entries(one.rates_fb ?? {}).sort((a, b) => Number(b[1]) - Number(a[1])).map(([name, rate]) => `${channelMark(name)} ${figure(rate)} fb`);
    return `${figure(one.mass_gev, 6)} GeV, width ${figure(one.width_gev, 2)} GeV, spin ${one.spin ?? "?"}${rates.length ? `; ${rates.join(", ")}` : ""}`;
  });
}
