// @ts-check
// Lines of commentary: those until a place, and those that mark a moment worth going to; pure.

/** @typedef {{seq: number, text: string, at?: string | null, label?: string, priority?: number, for_seq?: number, reply?: string}} Line */
/** @typedef {{seq: number, kind: "turning" | "big", label: string, at: string, text: string}} Moment */

/** Most marks on a timeline: with more, none would be visible. */
const MOST_MARKS = 10;
/** Weights of a line's moment if the world gives none. */
const UNWEIGHED = { turning: 2, big: 1 };

/** @param {number} seq @param {Record<string, any>} line @returns {Moment[]} */
export function momentsOf(seq, line) {
  if (!(line.priority <= 1)) return [];
  const kind = line.priority === 0 ? "turning" : "big";
  return [{ seq, kind, label: line.label ?? "", at: line.at ?? "", text: line.text }];
}

/** Lines up to event `seq`. @param {Line[]} lines the oldest first @param {number} seq */
export function linesUntil(lines, seq) {
  let count = lines.length;
  while (count && lines[count - 1].seq > seq) count -= 1;
  return lines.slice(0, count);
}

/**
 * The heaviest moments, one a stop, in order; each is called by the line that must most be heard there.
 * @param {Moment[]} moments @param {[number, number][] | null} weights number and weight of events; null weighs lines by what must be heard
 * @param {(seq: number) => number} stopAt index of the stop that ends what happened at an event
 * @returns {Moment[]}
 */
export function heaviest(moments, weights, stopAt) {
  /** @type {Map<number, Moment>} */ const called = new Map();
  for (const moment of moments) {
    const known = called.get(stopAt(moment.seq));
    if (!known || (known.kind === "big" && moment.kind === "turning")) called.set(stopAt(moment.seq), moment);
  }
  /** @type {Map<number, number>} */ const sums = new Map();
  const all = weights?.length ? weights : moments.map((moment) => /** @type {[number, number]} */ ([moment.seq, UNWEIGHED[moment.kind]]));
  for (const [seq, weight] of all) sums.set(stopAt(seq), (sums.get(stopAt(seq)) ?? 0) + weight);
  const seqs = new Map(all.map(([seq]) => [stopAt(seq), seq]));
  return [...sums].sort(([a, x], [b, y]) => y - x || b - a).slice(0, MOST_MARKS).sort(([a], [b]) => a - b)
    .map(([stop]) => called.get(stop) ?? { seq: seqs.get(stop) ?? 0, kind: "big", label: "", at: "", text: "" });
}
