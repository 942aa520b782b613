// @ts-check
// The tokens of an answer: how sure the model was of each, by which weights it was written, what counts in training.

import { h, replace, setAttribute } from "./dom.js";
import { plain, plural } from "./text.js";

/** Most tokens that are drawn. */
const MOST_TOKENS = 4_000;
/** Lower ends of the classes that tokens are coloured by, the surest first. */
const SURE = [0.9, 0.5, 0.2, 0.05];
/** Upper ends of the classes of entropy, in nats. */
const ENTROPY = [0.1, 0.5, 1, 2];
/** Tokens over which entropy is estimated: the mean of what they surprised by. */
const WINDOW = 9;

/** Which class of probability a token is in, from 0, the surest. @param {number | null} logprob in nats */
export function sureness(logprob) {
  if (logprob === null) return SURE.length + 1;
  const found = SURE.findIndex((least) => Math.exp(logprob) >= least);
  return found < 0 ? SURE.length : found;
}

/**
 * Entropy around each token in nats, estimated as the mean surprise of the tokens next to it; null where none is known.
 * @param {(number | null)[]} logprobs in nats @param {number} [window] @returns {(number | null)[]}
 */
export function entropies(logprobs, window = WINDOW) {
  const half = (window - 1) / 2;
  return logprobs.map((_, at) => {
    const near = /** @type {number[]} */ (logprobs.slice(Math.max(0, at - half), at + half + 1).filter((value) => value !== null));
    return near.length ? Math.max(0, -near.reduce((sum, value) => sum + value, 0) / near.length) : null;
  });
}

/** Which class of entropy, from 0, the least. @param {number | null} entropy in nats */
export function uncertainty(entropy) {
  if (entropy === null) return ENTROPY.length + 1;
  const found = ENTROPY.findIndex((most) => entropy <= most);
  return found < 0 ? ENTROPY.length : found;
}

/** The version of the weights that wrote each token. @param {[string | null, number][] | null | undefined} runs of versions and tokens @param {number} count @returns {(string | null)[]} */
export function versionsOf(runs, count) {
  const found = (runs ?? []).flatMap(([version, tokens]) => Array.from({ length: Math.min(tokens, count) }, () => version));
  return Array.from({ length: count }, (_, at) => found[at] ?? null);
}

/** What counts of an answer in training, in words. @param {any} one a call @param {number} count tokens of the answer */
export function maskWords(one, count) {
  if (!one.mask) return one.trainable === false ? "No token of this answer counts in training." : "Which tokens count in training is not recorded.";
  const own = one.mask.slice(one.mask.length - count);
  const counted = own.filter((/** @type {number} */ value) => value === 1).length;
  return `${counted} of ${plural(count, "token")} of the answer count in training; the ${plural(one.mask.length - count, "token")} of the prompt do not.`;
}

/** @param {any} one a call as the server sends it */
export function tokensPart(one) {
  /** @type {(number | null)[]} */ const logprobs = one.logprobs ?? [];
  if (!logprobs.length) return h("p", { class: "quiet" }, "The endpoint returned no token probabilities.");
  const known = /** @type {number[]} */ (logprobs.filter((value) => value !== null));
  const mean = Math.exp(known.reduce((total, value) => total + value, 0) / Math.max(1, known.length));
  const entropy = entropies(logprobs);
  const versions = versionsOf(one.weight_versions, logprobs.length);
  const mask = one.mask?.slice(one.mask.length - logprobs.length) ?? null;
  const cells = logprobs.slice(0, MOST_TOKENS).map((value, at) => h("i", {
    class: "tokens__one", data: { masked: mask && mask[at] !== 1 ? "yes" : null, anew: at > 0 && versions[at] !== versions[at - 1] ? "yes" : null },
    title: [`token ${at + 1}${one.token_ids?.[at] === undefined ? "" : `, id ${one.token_ids[at]}`}: ${value === null ? "unknown" : `${(100 * Math.exp(value)).toFixed(1)} %`}`,
      entropy[at] === null ? "" : `entropy about ${entropy[at]?.toFixed(2)} nats`, versions[at] ? `weights ${plain(versions[at])}` : "", mask ? (mask[at] === 1 ? "counts in training" : "does not count in training") : ""].filter(Boolean).join(", "),
  }));
  const place = h("p", { class: "tokens", role: "img", "aria-label": `Of ${logprobs.length} tokens, ${known.filter((value) => sureness(value) >= 3).length} were less likely than one in five` }, ...cells);
  const legend = h("p", { class: "quiet" });
  const ways = /** @type {[string, (at: number) => number, string][]} */ ([
    ["probability", (at) => sureness(logprobs[at]), " 90 %, 50 %, 20 %, 5 %, less."], ["entropy", (at) => uncertainty(entropy[at]), ` 0.1, 0.5, 1, 2 nats, more: the mean surprise of ${WINDOW} tokens.`],
  ]);
  const chips = ways.map(([name, kind, words]) => h("button", { class: "chip", type: "button", on: { click: () => colour(name, kind, words) } }, `by ${name}`));
  const colour = (/** @type {string} */ name, /** @type {(at: number) => number} */ kind, /** @type {string} */ words) => {
    cells.forEach((cell, at) => setAttribute(cell, "class", `tokens__one tokens__one--${kind(at)}`));
    chips.forEach((chip) => setAttribute(chip, "aria-pressed", String(chip.textContent === `by ${name}`)));
    replace(legend, "From sure to surprising: ", ...[0, 1, 2, 3, 4].map((one_) => h("i", { class: `tokens__one tokens__one--${one_}` })), `${words} The record keeps token ids, not their text.`);
  };
  colour(...ways[0]);
  const written = [...new Set(versions.filter((version) => version !== null))];
  return h("section", { class: "inspect__message" }, h("h5", {}, `${plural(logprobs.length, "token")}, geometric mean probability ${(100 * mean).toFixed(0)} %`), h("p", { class: "tabs" }, ...chips), place, legend,
    h("p", { class: "quiet" }, `${maskWords(one, logprobs.length)}${mask ? " Faint ones do not." : ""} `, written.length ? h("bdi", {}, `Written by weights ${written.map((version) => plain(version).slice(0, 60)).join(", then ")}.`) : "The version of the weights is not recorded."));
}
