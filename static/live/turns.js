// @ts-check
// Where the turns of an episode begin and end, by its events as far as they are known.

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */

export class Turns {
  /** Number of the newest event. */
  get headSeq() { return 0; }
  /** Number of the earliest event whose state can be shown. */
  get firstSeq() { return 0; }
  /** Number of the event after which all events are known. */
  get base() { return 0; }
  /** Whether earlier events are read in parts. */
  get inParts() { return false; }
  /** @param {number} seq @returns {LiveEvent | null} */
  eventAt(seq) { return seq ? null : null; }

  /** Number of the last event of the turn that follows `seq`. @param {number} seq */
  nextTurn(seq) {
    const first = this.eventAt(seq + 1);
    if (!first) return seq < this.base && this.inParts ? seq : this.headSeq;
    let last = seq + 1;
    while (this.eventAt(last + 1)?.turn === first.turn) last += 1;
    return last;
  }

  /** Number of the last known event of the turn that `seq` is in. @param {number} seq */
  turnEnd(seq) {
    const turn = this.eventAt(seq)?.turn;
    let last = seq;
    while (turn !== undefined && this.eventAt(last + 1)?.turn === turn) last += 1;
    return last;
  }

  /** Number of the last event of the turn before the one that `seq` is in. @param {number} seq */
  previousTurn(seq) {
    const turn = this.eventAt(seq)?.turn;
    let first = seq;
    while (first > this.firstSeq && this.eventAt(first)?.turn === turn) first -= 1;
    return Math.max(this.firstSeq, first);
  }
}
