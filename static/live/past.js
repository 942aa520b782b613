// @ts-check
// A part of a long episode's past, read separately from the newest events.

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent @typedef {import("./timeline.js").Timeline} Timeline */

export class Past {
  #begun;
  /** The part, as a timeline of its own. @type {Timeline | null} */ timeline = null;
  /** @type {LiveEvent[]} its events */ #events = [];
  /** What both hold together, by name, with how much that was. @type {Map<string, {of: string, all: any[]}>} */ #joined = new Map();

  /** @param {(base: number, state: Record<string, any>, epoch?: string) => Timeline} begun makes a timeline that begins after an event */
  constructor(begun) {
    this.#begun = begun;
  }

  /** Numbers of the event before the part and of its last one; `null` without a part. */
  get part() { return this.timeline && { base: this.timeline.base, last: this.timeline.headSeq }; }

  /**
   * Add a part; an adjacent one is joined.
   * @param {number} base number of the event that it begins after @param {Record<string, any>} state the one then @param {LiveEvent[]} events
   */
  take(base, state, events) {
    const before = this.timeline;
    const goesOn = before?.headSeq === base;
    const leadsUp = before?.base === base + events.length;
    const joined = [...(goesOn ? this.#events : []), ...events, ...(leadsUp ? this.#events : [])];
    const epoch = joined[0]?.epoch;
    const timeline = before && goesOn ? this.#begun(before.base, before.stateAt(before.base), epoch) : this.#begun(base, state, epoch);
    for (const event of joined) if (timeline.push(event) === "gap") throw new Error(`the record of events has a gap before ${event.seq}`);
    this.timeline = timeline;
    this.#events = joined;
    this.#joined.clear();
  }

  /** Drop the part. */
  drop() {
    this.timeline = null;
    this.#events = [];
    this.#joined.clear();
  }

  /** Whether the state after an event is in it. @param {number} seq */
  knows(seq) {
    return this.timeline !== null && seq >= this.timeline.base && seq <= this.timeline.headSeq;
  }

  /** @template T @param {"stops" | "lines" | "decisions" | "chapters"} name @param {T[]} own @param {(one: T) => number} seqOf @returns {T[]} what the part has and what is kept, in order, nothing twice */
  join(name, own, seqOf) {
    if (this.timeline === null) return own;
    const past = /** @type {any} */ (this.timeline[name]);
    const of = `${past.length} ${own.length}`;
    const known = this.#joined.get(name);
    if (known?.of === of) return known.all;
    const first = own.length ? seqOf(own[0]) : Infinity;
    const all = [...past.filter((/** @type {T} */ one) => seqOf(one) < first), ...own];
    this.#joined.set(name, { of, all });
    return all;
  }
}
