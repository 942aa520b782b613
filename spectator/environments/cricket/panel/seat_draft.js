// @ts-check
// What a person drafts before a ball: its parts by phase, the calls that send it, and its words; pure.

import { INTENTS } from "./intents.js";

/** @typedef {{name: string, x: number, y: number}} Fielder */
/** @typedef {{call: string, elect: string, batter: string, partner: string, bowler: string, length: string, line: string, pace: string, shot: string, intent: number, preset: string, fielders: Fielder[] | null}} Draft */

/** Lengths from the bowler's end down and lines from the leg side across, as on paper, with their words in a sentence. */
export const LENGTHS = { short: "short", "back of a length": "back of a length", good: "good length", full: "full", yorker: "yorker" };
export const LINES = { leg: "at leg", stumps: "at the stumps", "outside off": "outside off", "wide outside off": "wide outside off" };
/** The parts of each phase, in the order in which they are shown. */
export const PARTS = /** @type {Record<string, string[]>} */ ({
  toss: ["call", "elect"], elect: ["elect"], openers: ["batter", "partner"], batter: ["batter"], bowler: ["bowler"],
  bowl: ["pitch", "pace", "intent", "field"], bat: ["shot", "intent"],
  bowling_plan: ["bowler", "pitch", "pace", "intent", "field"], batting_plan: ["shot", "intent"],
});

/** Whether the phase is of the fielding side. @param {string} phase */
export const isBowling = (phase) => phase.startsWith("bowl");

const surname = (/** @type {string} */ name) => name.split(" ").at(-1) ?? "";

/** The draft with which a phase begins: things as they are set, and usual choices. @param {any} seen what the seat sees @returns {Draft} */
export function draftOf({ phase, you = {}, choices = {}, field }) {
  const usual = String(choices.usual ?? "");
  const own = field?.preset === "custom";
  return {
    call: "heads", elect: "field", bowler: phase === "bowling_plan" && !choices.bowlers ? "" : usual, batter: usual, partner: String((choices.batters ?? []).find((/** @type {string} */ name) => name !== usual) ?? ""),
    length: you.delivery?.length ?? "", line: you.delivery?.line ?? "", pace: you.delivery?.pace ?? "", shot: you.shot ?? "",
    intent: isBowling(phase) ? you.attack ?? 0.5 : you.shot_aggression ?? you.aggression ?? 0.5,
    preset: own ? "" : field?.preset ?? "standard", fielders: own ? field.fielders : null,
  };
}

/** @param {Draft} draft */
const fieldOf = ({ preset, fielders }) => (fielders ? { fielders: fielders.map(({ name, x, y }) => ({ name, x, y })) } : { preset });
/** @param {Record<string, any>} given */
const filled = (given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "" && value !== undefined));

/**
 * The calls that a draft needs: what differs from the way things are set, and the one that goes on.
 * @param {Draft} draft @param {any} seen @param {string[]} tools the legal ones, the one that goes on first
 * @returns {{tool: string, arguments: Record<string, any>}[]}
 */
export function callsOf(draft, seen, tools) {
  const now = draftOf(seen);
  const { length, line, pace, shot, intent, bowler, batter, partner, call, elect } = draft;
  const [differs, go] = [(/** @type {(keyof Draft)[]} */ ...parts) => parts.some((part) => JSON.stringify(draft[part]) !== JSON.stringify(now[part])), tools[0]];
  const last = (/** @type {Record<string, any>} */ given = {}) => ({ tool: go, arguments: filled(given) });
  const newField = differs("preset", "fielders");
  switch (seen.phase) {
    case "toss": case "elect": return [last({ call, elect })];
    case "openers": return [last({ batter, partner })];
    case "batter": return [last({ batter })];
    case "bowler": return [last({ bowler })];
    case "bowling_plan": return [last({ ...(go === "bowl_session" ? {} : { bowler }), length, line, pace, attack: intent, ...(newField ? fieldOf(draft) : {}), ask: { wicket: true } })];
    case "batting_plan": return [last({ shot, aggression: intent, ask: { wicket: true } })];
    case "bat": return [
      ...(shot && differs("shot", "intent") ? [{ tool: "plan_shot", arguments: { shot, aggression: intent } }] : !shot && differs("intent") ? [{ tool: "set_strategy", arguments: { aggression: intent } }] : []), last(),
    ].filter(({ tool }) => tools.includes(tool));
    default: return [
      ...(differs("length", "line", "pace") ? [{ tool: "plan_delivery", arguments: filled({ length, line, pace }) }] : []),
      ...(newField ? [{ tool: "set_field", arguments: fieldOf(draft) }] : []),
      ...(differs("intent") ? [{ tool: "set_bowling_strategy", arguments: { attack: intent } }] : []), last(),
    ].filter(({ tool }) => tools.includes(tool));
  }
}

/** A draft that begins with given calls. @param {Draft} draft @param {{tool: string, arguments: any}[]} calls @returns {Draft} */
export function withCalls(draft, calls) {
  const found = { ...draft };
  for (const { tool, arguments: given = {} } of calls) {
    const level = given.attack ?? given.aggression;
    if (typeof level === "number") found.intent = level;
    if (tool === "plan_delivery" || tool === "bowl_over") Object.assign(found, { length: given.length ?? "", line: given.line ?? "", pace: given.pace ?? "" });
    if (tool === "plan_shot" || tool === "play_over") found.shot = given.shot ?? "";
    for (const name of /** @type {const} */ (["call", "elect", "batter", "partner", "bowler"])) if (given[name]) found[name] = given[name];
    if (given.preset) Object.assign(found, { preset: given.preset, fielders: null });
    if (given.fielders) Object.assign(found, { preset: "", fielders: given.fielders });
  }
  return found;
}

/** A fielder's place is outside the ring. @param {Fielder} fielder */
export const isOutside = ({ x, y }) => (y >= 0 && y <= 20.12 ? Math.abs(x) : Math.hypot(x, y < 0 ? y : y - 20.12)) > 27.43;

/** @param {string} name */
export const presetWords = (name) => ({ leg_side: "leg-side", off_side: "off-side" }[name] ?? name);

/** The button's word. @param {string} phase @param {Draft} draft @param {number} [overs] that orders are for */
export function goWords(phase, { bowler, batter, elect }, overs = 1) {
  const those = overs > 1 ? `these ${overs} overs` : "the over";
  return {
    toss: "Toss the coin", elect: elect === "bat" ? "Bat first" : "Field first", openers: "Send them in", batter: `Send in ${surname(batter)}`,
    bowler: `Give ${surname(bowler)} the ball`, bowl: "Bowl", bat: "Play", bowling_plan: `Bowl ${those}`, batting_plan: `Bat ${those}`,
  }[phase] ?? "Go on";
}

/** A draft in words, for the button, those who listen and those who watch. @param {string} phase @param {Draft} draft @param {Fielder[]} placed the nine as drafted */
export function draftWords(phase, { call, elect, batter, partner, bowler, length, line, pace, shot, intent, preset, fielders }, placed) {
  const level = INTENTS[isBowling(phase) ? "bowling" : "batting"][/** @type {0.5} */ (intent)]?.toLowerCase() ?? "";
  const ball = [pace && `${pace} ball`, LENGTHS[/** @type {"good"} */ (length)] ?? "", LINES[/** @type {"leg"} */ (line)] ?? ""].filter(Boolean).join(", ");
  const inside = placed.filter((one) => !isOutside(one)).length;
  const ring = placed.length ? `${inside} fielder${inside === 1 ? "" : "s"} in the ring` : "";
  switch (phase) {
    case "toss": return `${call}, and ${elect} first if it is won`;
    case "elect": return `${elect} first`;
    case "openers": return `${batter} and ${partner} to open`;
    case "batter": return `${batter} to come in`;
    case "bowler": return `${bowler} to bowl`;
    case "bat": case "batting_plan": return `${shot || "the batter’s own stroke"}, ${level}`;
    default: return [bowler && phase !== "bowl" ? `${bowler} to bowl` : "", ball || "the bowler’s own ball", `${fielders ? "own" : presetWords(preset)} field`, ring, level === "usual" ? "" : level].filter(Boolean).join(", ");
  }
}

/** @typedef {{runs: number, wicket: number, boundary: number, worth: number}} Odds */

/** Chance and risk in a few words. @param {Odds} odds */
export const oddsWords = ({ runs, wicket, boundary }) => `${runs.toFixed(1)} runs expected, wicket ${percent(wicket)}, boundary ${percent(boundary)}`;
/** @param {number} share */
export const percent = (share) => `${Math.round(100 * share)}\u00a0%`;

/** What a draft gains over the usual ball. @param {number} worth @param {string} unit */
export function worthWords(worth, unit) {
  const [value, figure] = unit === "chance" ? [100 * worth, `${Math.abs(100 * worth).toFixed(1)} points of win chance`] : [worth, `${Math.abs(worth).toFixed(2)} runs`];
  return /^0\.0*\s/.test(figure) ? "as good as the usual ball" : `${figure} ${value > 0 ? "better" : "worse"} for you than the usual ball`;
}

/** Each option's share of the way from the worst to the best, 0 to 1. @param {Record<string, Odds>} options @returns {Record<string, number>} */
export function meritOf(options) {
  const worths = Object.values(options).map(({ worth }) => worth);
  const [least, most] = [Math.min(...worths), Math.max(...worths)];
  return Object.fromEntries(Object.entries(options).map(([name, { worth }]) => [name, most > least ? (worth - least) / (most - least) : 0]));
}
