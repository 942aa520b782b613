// The making of events for tests.

/** An event of `epoch` e1 with a patch that sets `world.n` to its number. */
export function event(seq, changes = {}) {
  return { v: 1, episode_id: "ep-1", epoch: "e1", seq, at: "2026-11-21T05:00:00.000Z", turn: Math.ceil(seq / 3), type: "step.taken", data: {}, patch: { world: { n: seq } }, ...changes };
}

export const events = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => event(first + index));
