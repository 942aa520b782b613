// @ts-check
// An episode's events in the browser, with the state at any of them: the one source of live and of replay.

import { Ledger, SILENT } from "./ledger.js";
import { applyPatch } from "./merge_patch.js";
import { heaviest } from "./moments.js";
import { Turns } from "./turns.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent @typedef {import("./moments.js").Moment} Moment */

const KEYFRAME_EVERY = 128;
/** Events beyond which the past is read in parts, because all of it would take seconds. */
export const READ_WHOLE = 20_000;

export class Timeline extends Turns {
  #epoch = "";
  #base = 0;
  /** @type {LiveEvent[]} */ #events = [];
  /** @type {Record<string, any>[]} state before event number `i * KEYFRAME_EVERY` of `#events` */ #keyframes = [{}];
  /** @type {Record<string, any>} */ #head = {};
  /** @type {number[]} */ #stops = [];
  /** What a world says of its events. @type {import("./ledger.js").Reading} */ reading = SILENT;
  #ledger = new Ledger(SILENT);
  /** @type {{for: string, marks: Moment[]}} */ #marks = { for: "", marks: [] };
  /** @type {number[]} */ #chapters = [];
  #beats; #endings;
  /** A part of what lies before, where that is read in parts. @type {import("./past.js").Past | null} */ past = null;
  /** The last requested state, so that playing forward costs one patch a step. */
  #last = { seq: 0, state: /** @type {Record<string, any>} */ ({}) };

  /**
   * @param {Record<string, number>} [beats] how much time each event type is worth; none makes every turn one
   * @param {Record<string, string>} [endings] event types that end a chapter, with what people call it
   */
  constructor(beats = {}, endings = {}) {
    super();
    this.#beats = beats;
    this.#endings = endings;
  }

  get epoch() { return this.#epoch; }
  /** Number of the newest event. */
  get headSeq() { return this.#base + this.#events.length; }
  /** Number of the earliest event whose state can be shown. */
  get firstSeq() { return this.complete || this.inParts ? Math.min(1, this.headSeq) : this.#base; }
  /** Whether it reaches back to the first event. */
  get complete() { return this.#base === 0; }
  /** Number of the event that it begins after, but for parts of the past. */
  get base() { return this.#base; }
  /** Whether its past is read in parts. */
  get inParts() { return this.#base > READ_WHOLE; }
  get headState() { return this.#head; }
  /** Numbers of the events at which a beat ends: where stepping and the scrub bar stop. */
  get stops() { return this.past?.join("stops", this.#stops, (seq) => seq) ?? this.#stops; }
  /** The few moments that weigh most, in order: what the timeline marks. */
  get moments() {
    const { moments, weights, weighed } = this.#ledger;
    const now = `${this.#base} ${this.#stops.length} ${moments.length} ${weights.length}`;
    if (this.#marks.for !== now) this.#marks = { for: now, marks: heaviest(moments, weighed ? weights : null, (seq) => this.stopAt(seq)) };
    return this.#marks.marks;
  }
  /** Every line of commentary that is known, in order. */
  get lines() { return this.past?.join("lines", this.#ledger.lines, (line) => line.seq) ?? this.#ledger.lines; }
  /** Every decision that is known, in order. */
  get decisions() { return this.past?.join("decisions", this.#ledger.decisions, (made) => made.seq) ?? this.#ledger.decisions; }
  /** What the world wanted kept of its events, in order. */
  get notes() { return this.#ledger.notes; }
  /** Numbers of the events at which a chapter ended. */
  get chapters() { return this.past?.join("chapters", this.#chapters, (seq) => seq) ?? this.#chapters; }
  /** What people call a chapter; empty when there are none. */
  get chapterName() { return Object.values(this.#endings)[0] ?? ""; }

  /**
   * Restart from a snapshot, or from nothing with seq 0.
   * @param {string} epoch @param {number} seq @param {Record<string, any>} state
   */
  reset(epoch, seq, state) {
    this.#epoch = epoch;
    this.#base = seq;
    this.past?.drop();
    this.#events = [];
    this.#head = state;
    this.#keyframes = [state];
    this.#stops = seq ? [seq] : [];
    this.#chapters = [];
    this.#ledger = new Ledger(this.reading, state);
    this.#last = { seq, state };
  }

  /**
   * Add the next event.
   * @param {LiveEvent} event
   * @returns {"added" | "known" | "gap"} `gap` when events before it are missing, or it is of another epoch
   */
  push(event) {
    if (this.#epoch === "" && event.seq === 1) this.reset(event.epoch, 0, {});
    if (event.type === "episode.recovered" && event.seq === this.headSeq + 1) this.#epoch = event.epoch; // after a rollback of its database
    if (event.epoch !== this.#epoch) return "gap";
    if (event.seq <= this.headSeq) return "known";
    if (event.seq !== this.headSeq + 1) return "gap";
    const before = this.#head;
    this.#head = applyPatch(before, event.patch);
    this.#events.push(event);
    if (this.#events.length % KEYFRAME_EVERY === 0) this.#keyframes.push(this.#head);
    this.#note(event, before);
    return "added";
  }

  /**
   * Put the whole record, read from its beginning, in the place of what a snapshot left out.
   * @param {LiveEvent[]} record events 1, 2, 3, ... at least up to where this timeline begins
   */
  complement(record) {
    const newer = this.#events;
    const epoch = record[0]?.epoch || this.#epoch;
    this.reset(epoch, 0, {});
    for (const event of [...record, ...newer]) {
      if (this.push(event) === "gap") throw new Error(`the record of events has a gap before ${event.seq}`);
    }
  }

  /** Whether the state after an event can be shown now. @param {number} seq */
  knows(seq) { return seq >= this.#base || Boolean(this.past?.knows(seq)); }

  /** @param {number} seq @returns {LiveEvent | null} */
  eventAt(seq) {
    return this.#events[seq - this.#base - 1] ?? this.past?.timeline?.eventAt(seq) ?? null;
  }

  /**
   * What viewers saw after event `seq`, clamped to what is known.
   * @param {number} seq @returns {Record<string, any>}
   */
  stateAt(seq) {
    if (seq < this.#base && this.past?.timeline) return this.past.timeline.stateAt(seq);
    const wanted = Math.max(this.#base, Math.min(seq, this.headSeq));
    if (wanted === this.headSeq) return this.#head;
    const keyframe = Math.floor((wanted - this.#base) / KEYFRAME_EVERY);
    let from = this.#base + keyframe * KEYFRAME_EVERY;
    let state = this.#keyframes[keyframe];
    if (this.#last.seq <= wanted && this.#last.seq >= from) ({ seq: from, state } = this.#last);
    for (let next = from + 1; next <= wanted; next += 1) {
      state = applyPatch(state, this.#events[next - this.#base - 1].patch);
    }
    this.#last = { seq: wanted, state };
    return state;
  }

  /** Number of the event that a world calls by this name; undefined while it is not known. @param {string} name */
  placeOf(name) {
    return this.#ledger.places.get(name) ?? this.past?.timeline?.placeOf(name);
  }

  /** Index of the stop that ends what happened at `seq`: the first at or after it, else the last. @param {number} seq */
  stopAt(seq) {
    const stops = this.stops;
    let low = 0;
    let high = Math.max(0, stops.length - 1);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stops[middle] < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Beats that the turn of the event at `seq` lasts; 0 for a turn in which nothing happened to be watched. @param {number} seq */
  beatsAt(seq) {
    const turn = this.eventAt(seq)?.turn;
    let beats = 0;
    for (let at = seq; turn !== undefined && this.eventAt(at)?.turn === turn; at -= 1) {
      beats += this.#beats[this.eventAt(at)?.type ?? ""] ?? 0;
    }
    return Object.keys(this.#beats).length ? beats : 1;
  }

  /** Whether something to be watched happened at `seq`. @param {number} seq */
  isBeat(seq) { return (this.#beats[this.eventAt(seq)?.type ?? ""] ?? 0) > 0; }

  /** Another one that begins after an event. @param {number} base @param {Record<string, any>} state @param {string} [epoch] */
  begun(base, state, epoch = this.#epoch) {
    const timeline = new Timeline(this.#beats, this.#endings);
    timeline.reading = this.reading;
    timeline.reset(epoch, base, state);
    return timeline;
  }

  /** @param {LiveEvent} event @param {Record<string, any>} before */
  #note(event, before) {
    const previous = this.eventAt(event.seq - 1);
    const sameTurn = previous?.turn === event.turn;
    const isBeat = Object.keys(this.#beats).length === 0 || this.beatsAt(event.seq) > 0;
    const stopped = this.#stops.at(-1);
    if (event.type === "episode.ended" || event.seq === 1) this.#stops.push(event.seq);
    else if (isBeat && sameTurn && stopped === event.seq - 1) this.#stops[this.#stops.length - 1] = event.seq;
    else if (isBeat) this.#stops.push(event.seq);
    if (Object.hasOwn(this.#endings, event.type)) this.#chapters.push(event.seq);
    this.#ledger.note(event, before);
  }
}
