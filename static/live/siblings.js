// @ts-check
// Episodes of one prompt side by side: their decisions in step, where they diverge, and what each earned. Pure.

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */
/** @typedef {{seq: number, until: number, essence: string, data: any, earned: number}} Decided a decision, the last event before the next one, what it says, and the rewards up to there */

/** What keeps the advantages of nearly equal rewards finite; that of the exports. */
const EPSILON = 1e-4;

/**
 * The agent's decisions; those of others in between belong to the step before.
 * @param {LiveEvent[]} events from the first on @param {string} agent @returns {Decided[]}
 */
export function decisionsOf(events, agent) {
  /** @type {Decided[]} */ const found = [];
  let earned = 0;
  for (const event of events) {
    if (event.type === "step.taken") earned += Number(event.data?.reward ?? 0);
    if (event.type === "decision.made" && (event.data?.actor === agent || !agent)) {
      found.push({ seq: event.seq, until: event.seq, essence: JSON.stringify(event.data?.action ?? null), data: event.data, earned });
    } else if (found.length) {
      const last = found[found.length - 1];
      last.until = event.seq;
      last.earned = earned;
    }
  }
  return found;
}

/** @typedef {{count: number, branch: number}} Company how many went the same way, and which of the ways it is there */

/**
 * How many siblings took the same way up to each decision, the sibling itself included; a way is never joined again.
 * @param {string[][]} ways what was decided, by sibling @returns {Company[][]} by sibling and decision
 */
export function company(ways) {
  /** @type {Company[][]} */ const found = ways.map(() => []);
  let branch = 0;
  /** @param {number[]} members @param {number} step */
  const walk = (members, step) => {
    /** @type {Map<string, number[]>} */ const by = new Map();
    for (const one of members) if (step < ways[one].length) by.set(ways[one][step], [...(by.get(ways[one][step]) ?? []), one]);
    const split = by.size > 1;
    for (const [place, same] of [...by.values()].entries()) {
      const own = split ? (branch += 1) : 0;
      for (const one of same) found[one][step] = { count: same.length, branch: split ? own : (found[one][step - 1]?.branch ?? place) };
    }
    return [...by.values()];
  };
  let groups = [ways.map((_, index) => index)];
  for (let step = 0; groups.length; step += 1) groups = groups.flatMap((members) => walk(members, step)).filter((members) => members.length);
  return found;
}

/** The first decision at which siblings diverge; `null` while all agree. @param {string[][]} ways */
export function firstParting(ways) {
  const longest = Math.max(0, ...ways.map((way) => way.length));
  for (let step = 0; step < longest; step += 1) {
    if (new Set(ways.flatMap((way) => (step < way.length ? [way[step]] : []))).size > 1) return step;
  }
  return null;
}

/** Where a sibling leaves the last that went with it. @param {Company[]} counts its company @returns {number | null} */
export function alone(counts) {
  const step = counts.findIndex(({ count }) => count === 1);
  return step < 0 ? null : step;
}

/** `(value - mean) / (sample standard deviation + 1e-4)` of each. @param {number[]} values */
export function advantages(values) {
  if (values.length < 2) return values.map(() => 0);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1));
  return values.map((value) => (value - mean) / (spread + EPSILON));
}
