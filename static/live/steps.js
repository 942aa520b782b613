// @ts-check
// Two episodes side by side: which event of each belongs to a step, and where they diverge. Pure.

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */
/** @typedef {{step: number, seq: number, value: number | null}} Place the last event of a step, and the figure then */

/** Fields that are measured or numbered, and so differ between any two runs. */
const MEASURED = new Set(["latency_s", "duration_s", "for_seq", "tokens_in", "tokens_out", "cost"]);
/** Event types that come from outside the game. */
const OUTSIDE = /^(episode\.|pace\.|narration\.|warning)/;

/**
 * Where each step of an episode ends: by the world's own steps, else by turns.
 * @param {LiveEvent[]} events from the first on @returns {Place[]} by rising step
 */
export function placesOf(events) {
  /** @type {Map<number, Place>} */
  const places = new Map();
  const own = events.some((event) => event.patch?.world?.glance?.step !== undefined);
  let step = 0;
  /** @type {number | null} */
  let value = null;
  let turn = 0;
  let moved = true;
  for (const event of events) {
    const glance = event.patch?.world?.glance;
    if (glance?.step !== undefined) step = glance.step;
    if (typeof glance?.value === "number") value = glance.value;
    if (!own) step = event.turn;
    if (glance !== undefined || !own) moved = true;
    else if (event.turn !== turn) moved = false;
    turn = event.turn;
    if (moved || event.type === "episode.ended") places.set(step, { step, seq: event.seq, value });
  }
  return [...places.values()].sort((a, b) => a.step - b.step);
}

/** The place at `step`, or the last one before it. @param {Place[]} places @param {number} step @returns {Place | null} */
export function placeAt(places, step) {
  let low = 0;
  let high = places.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (places[middle].step <= step) low = middle + 1;
    else high = middle;
  }
  return places[low - 1] ?? null;
}

/**
 * The first events that differ, by what happened: not by when, nor by who was asked in the beginning.
 * @param {LiveEvent[]} a @param {LiveEvent[]} b
 * @returns {{a: LiveEvent | null, b: LiveEvent | null} | null} `null` when the shorter one is the beginning of the other
 */
export function parting(a, b) {
  const [ours, theirs] = [a, b].map((events) => events.filter((event) => !OUTSIDE.test(event.type)));
  const shared = Math.min(ours.length, theirs.length);
  for (let index = 0; index < shared; index += 1) {
    if (essence(ours[index]) !== essence(theirs[index])) return { a: ours[index], b: theirs[index] };
  }
  return ours.length === theirs.length ? null : { a: ours[shared] ?? null, b: theirs[shared] ?? null };
}

/** What an event says, without what is measured and without the reason given. @param {LiveEvent} event */
function essence(event) {
  if (event.type === "decision.made") return JSON.stringify([event.data.actor, event.data.action]);
  return JSON.stringify([event.type, event.data], (key, value) => (MEASURED.has(key) ? undefined : value));
}

/**
 * The difference of the two figures at every step that both have reached.
 * @param {Place[]} a @param {Place[]} b @returns {[number, number][]} step and difference
 */
export function differences(a, b) {
  const last = Math.min(a.at(-1)?.step ?? -1, b.at(-1)?.step ?? -1);
  const steps = [...new Set([...a, ...b].map((place) => place.step))].filter((step) => step <= last).sort((x, y) => x - y);
  return steps.flatMap((step) => {
    const [mine, theirs] = [placeAt(a, step)?.value, placeAt(b, step)?.value];
    return typeof mine === "number" && typeof theirs === "number" ? [/** @type {[number, number]} */ ([step, mine - theirs])] : [];
  });
}
