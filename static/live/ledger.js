// @ts-check
// What is noted of an episode's events as they come: lines, moments by weight, names of places, decisions.

import { newDecision, takeWorth } from "./decisions.js";
import { momentsOf } from "./moments.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */
/** @typedef {import("./moments.js").Line} Line */
/** @typedef {import("./moments.js").Moment} Moment */
/** @typedef {import("./decisions.js").Decided} Decided */

/**
 * What a world says of its events; a page without a world's panel has none of it.
 * @typedef {object} Reading
 * @property {(event: LiveEvent) => string[]} names what it calls an event
 * @property {((event: LiveEvent, before: Record<string, any>) => number) | null} weight how much an event matters, 0 for most; `before` is the state that it changed
 * @property {(event: LiveEvent, before: Record<string, any>) => any} note what it wants kept of an event; null for nothing
 * @property {(event: LiveEvent) => {actor: string, points: number}[]} worths what it says that the newest decisions were worth
 */

/** @type {Reading} */
export const SILENT = { names: () => [], weight: null, note: () => null, worths: () => [] };

export class Ledger {
  #reading;
  /** @type {Moment[]} */ moments;
  /** @type {Line[]} */ lines;
  /** @type {Decided[]} every decision that is known, in order */ decisions;
  /** @type {[number, number][]} number and weight of every event that has one */ weights = [];
  /** @type {{seq: number, note: any}[]} what the world wanted kept, in order */ notes = [];
  /** @type {Map<string, number>} number of the newest event of each name */ places = new Map();
  /** @type {Map<string, Decided>} */ #newest = new Map();

  /** @param {Reading} reading @param {Record<string, any>} [state] what a snapshot brought */
  constructor(reading, state = {}) {
    this.#reading = reading;
    this.lines = Object.values(state.feed ?? {}).sort((a, b) => a.seq - b.seq);
    this.moments = this.lines.flatMap((line) => momentsOf(line.seq, line));
    this.decisions = Object.values(state.decisions ?? {}).sort((a, b) => a.seq - b.seq).map((made) => newDecision(made.seq, made.turn, made));
    for (const made of this.decisions) this.#newest.set(made.actor, made);
  }

  /** Whether the world weighs its events. */
  get weighed() { return this.#reading.weight !== null; }

  /** @param {LiveEvent} event @param {Record<string, any>} before the state that it changed */
  note(event, before) {
    for (const name of this.#reading.names(event)) this.places.set(name, event.seq);
    const weight = this.#reading.weight?.(event, before) ?? 0;
    if (weight > 0) this.weights.push([event.seq, weight]);
    const note = this.#reading.note(event, before);
    if (note !== null) this.notes.push({ seq: event.seq, note });
    for (const { actor, points } of this.#reading.worths(event)) takeWorth(this.#newest.get(actor), points);
    if (event.type === "decision.made") this.#decided(event);
    if (event.type === "action.refused") this.#refused(event);
    if (event.type !== "narration.line") return;
    const line = /** @type {Line} */ ({ seq: event.seq, ...event.data });
    this.lines.push(line);
    this.moments.push(...momentsOf(event.seq, line));
  }

  /** @param {LiveEvent} event */
  #decided({ seq, turn, data }) {
    const made = newDecision(seq, turn, data);
    this.decisions.push(made);
    this.#newest.set(made.actor, made);
  }

  /** @param {LiveEvent} event */
  #refused({ data }) {
    const made = this.#newest.get(data.actor);
    if (made) made.refused = { rule: data.rule, message: data.message };
  }
}
