// @ts-check
// What the figures of a plan are called: intents from 0 to 1 in the captains' words; pure.

export const INTENTS = {
  bowling: { 0.3: "Contain", 0.4: "Tight", 0.5: "Usual", 0.6: "Press", 0.7: "Attack" },
  batting: { 0.3: "Defend", 0.4: "Careful", 0.5: "Rotate", 0.6: "Push on", 0.7: "Attack" },
};

const PHASES = { powerplay: "in the powerplay", middle: "in the middle", death: "at the death" };
/** @type {Record<string, "batting" | "bowling">} */ const LEVELS = { aggression: "batting", attack: "bowling" };

/** An intent in a word. @param {"batting" | "bowling"} role @param {number} value from 0 to 1 */
export function intentWord(role, value) {
  const level = Math.max(0.3, Math.min(0.7, Math.round(10 * value) / 10));
  return INTENTS[role][/** @type {0.5} */ (level)].toLowerCase();
}

/** A call in words: the phases of a plan together, each figure behind its word. @param {string} tool @param {Record<string, any>} given @returns {[string, string][]} */
export function callWords(tool, given) {
  const { ...rest } = given;
  /** @type {[string, string][]} */ const pairs = [];
  for (const role of /** @type {const} */ (["batting", "bowling"])) {
    const set = Object.entries(PHASES).flatMap(([phase, place]) => {
      const value = rest[`${role}_${phase}`];
      delete rest[`${role}_${phase}`];
      return typeof value === "number" ? [{ word: intentWord(role, value), place, value }] : [];
    });
    if (!set.length) continue;
    const even = set.length > 1 && set.every(({ word }) => word === set[0].word);
    const figures = [...new Set(set.map(({ value }) => value))].join(", ");
    pairs.push([role, even ? `${set[0].word} throughout (${figures})` : set.map(({ word, place, value }) => `${word} ${place} (${value})`).join(", ")]);
  }
  return [...pairs, ...Object.entries(rest).map(([name, value]) => argumentWords(name, value))];
}

/** @param {string} name @param {any} value @returns {[string, string]} */
function argumentWords(name, value) {
  const title = name.replaceAll("_", " ");
  if (typeof value === "number" && LEVELS[name]) return [title, `${intentWord(LEVELS[name], value)} (${value})`];
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return [title, value.join(", ")];
  return [title, typeof value === "string" ? value : JSON.stringify(value)];
}
