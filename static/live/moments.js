// @ts-check
// Lines of commentary: those until a place, and those that mark a moment worth going to; pure.

/** @typedef {{seq: number, text: string, at?: string | null, label?: string, priority?: number}} Line */
/** @typedef {{seq: number, kind: "turning" | "big", label: string, at: string, text: string}} Moment */

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
