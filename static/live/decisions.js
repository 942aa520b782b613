// @ts-check
// Decisions as a page lists them: who made them, their worth, and which match the filter; pure.

/**
 * @typedef {object} Decided
 * @property {number} seq number of its event
 * @property {number} turn
 * @property {string} actor
 * @property {string} tool
 * @property {string} source who really made it
 * @property {Record<string, any>} data of the event, as recorded
 * @property {number | null} points what the world says that it was worth, in its own unit; null while it says nothing
 * @property {{rule: string, message: string} | null} refused
 */

/** The viewer's filter of the list; empty texts match everything. @typedef {{seat: string, tool: string, source: string, worth: string}} Wish */

/** Points from which on a decision counts as a gain or a loss: what is shown as 0.0 is neither. */
const COUNTS = 0.05;

/** Ways of the filter by worth, with what they are called. */
export const WORTHS = /** @type {const} */ ([["gained", "gained"], ["lost", "lost"], ["refused", "refused"]]);

/** Classes of failure in a few words; docs/failures.md has a sentence on each. @type {Record<string, string>} */
export const FAILURE_WORDS = {
  model_infra: "the endpoint failed", model_resting: "the endpoint is paused after failures", model_rejected: "the endpoint rejected it", context_exceeded: "the prompt was too large for the model", rate_limited: "the endpoint asked to wait",
  declined: "the model declined to answer", unparsable: "the answer named no action", illegal_action: "the action was not legal", truncated: "the answer was cut short",
  timeout: "no answer in time", spent: "a cap was reached", policy_fault: "the policy raised an error", env_infra: "the environment failed",
  env_verdict: "the environment ended it", journal: "the record could not be written", cancelled: "cancelled", killed: "the process died", unknown: "the reason was not recorded",
};

/** What kinds of deciders are called. @type {Record<string, string>} */
export const SOURCE_WORDS = { model: "model", fallback: "fallback", random: "random", human: "person", heuristic: "scripted", oracle: "sees the truth", remote: "remote" };

/** Whether another program played an episode, so that nothing can be played on from it. @param {any} episode */
export const playedElsewhere = (episode) => Object.values(episode?.seats ?? {}).some((seat) => seat.policy === "imported");

/** @param {number} seq @param {number} turn @param {Record<string, any>} data @returns {Decided} */
export function newDecision(seq, turn, data) {
  return { seq, turn, actor: data.actor ?? "", tool: typeof data.action?.tool === "string" ? data.action.tool : "", source: data.source ?? "", data, points: null, refused: data.refused ?? null };
}

/** @param {Decided | undefined} made @param {number} points */
export function takeWorth(made, points) {
  if (made && Number.isFinite(points)) made.points = (made.points ?? 0) + points;
}

/**
 * Why a decision is not its seat's own, in words; empty if it is.
 * @param {{source?: string, failure_class?: string | null, fallback_reason?: string | null}} decision @param {string} [own] kind of the decider whose seat it is
 */
export function foreignWords(decision, own = "") {
  if (decision.source === "fallback") return ["made by the fallback", FAILURE_WORDS[decision.failure_class ?? ""]].filter(Boolean).join(": ");
  return decision.source && own && decision.source !== own && own === "model" ? `not the model’s: ${SOURCE_WORDS[decision.source] ?? decision.source}` : "";
}

/** Those that match the filter, newest first. @param {Decided[]} decisions @param {Wish} wish */
export function wanted(decisions, wish) {
  const found = decisions.filter((made) => (!wish.seat || made.actor === wish.seat) && (!wish.tool || made.tool === wish.tool) && (!wish.source || made.source === wish.source) && matches(made, wish.worth));
  return found.reverse();
}

/** @param {Decided} made @param {string} worth */
function matches(made, worth) {
  if (worth === "refused") return made.refused !== null;
  if (worth === "gained") return (made.points ?? 0) >= COUNTS;
  if (worth === "lost") return (made.points ?? 0) <= -COUNTS;
  return true;
}

/** Signed, one decimal, never a signed zero; empty while nothing is known. @param {number | null} points */
export function pointsText(points) {
  if (points === null) return "";
  if (Math.abs(points) < COUNTS) return "0.0";
  return `${points > 0 ? "+" : "−"}${Math.abs(points).toFixed(1)}`;
}

/**
 * Stretches of the timeline that one kind of decider made in one seat; where a fallback was needed, the beat is the fallback's.
 * @param {Decided[]} decisions in order @param {string} actor @param {(seq: number) => number} place the stop at which the beat of an event ends
 * @returns {{source: string, from: number, to: number}[]} in stops; each begins where the one before ends
 */
export function stretches(decisions, actor, place) {
  /** @type {Map<number, string>} */ const beats = new Map();
  for (const made of decisions) {
    const at = place(made.seq);
    if (made.actor === actor && beats.get(at) !== "fallback") beats.set(at, made.source);
  }
  /** @type {{source: string, from: number, to: number}[]} */ const found = [];
  for (const [at, source] of beats) {
    const last = found.at(-1);
    if (last?.source === source) last.to = at;
    else found.push({ source, from: last?.to ?? Math.max(0, at - 1), to: at });
  }
  return found;
}
