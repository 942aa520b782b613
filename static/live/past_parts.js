// @ts-check
// Reads a long episode's past in parts around the viewer's place; fetched for long episodes only.

import { parseJson } from "./json.js";
import { Past } from "./past.js";
import { parseEvent } from "./protocol.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent @typedef {import("./timeline.js").Timeline} Timeline */

/** Events of a part. */
export const PART = 1_000;
/** Most events of the past that are kept; beyond, a new part replaces them all. */
const MOST_KEPT = 5 * PART;
/** Milliseconds of waiting after which the server's progress is shown. */
const SLOW_MS = 700;
/** Events between the states that the server keeps on its way. */
const SPACING = 2 * PART;
/** Milliseconds between two reports of progress. */
const STEPS = 20;

/** @typedef {{done: number, all: number}} Reading events that the server has gone through, of how many; 0 of 0 before that is known */

export class PastParts {
  #root; #episodeId; #timeline; #onChange; #onReading; #past;
  /** @type {Promise<void> | null} */ #reaching = null;
  /** The event that is wanted next; 0 for none. */ #wanted = 0;

  /**
   * @param {string} root @param {string} episodeId @param {Timeline} timeline @param {() => void} onChange
   * @param {(reading: Reading | null) => void} [onReading] hears the server's progress if it takes long, and `null` at the end
   */
  constructor(root, episodeId, timeline, onChange, onReading = () => {}) {
    this.#root = root;
    this.#episodeId = episodeId;
    this.#timeline = timeline;
    this.#onChange = onChange;
    this.#onReading = onReading;
    this.#past = timeline.past = new Past((base, state, epoch) => timeline.begun(base, state, epoch));
  }

  async openAtEnd() {
    const { epoch, seq, state } = await this.#state(null);
    this.#timeline.reset(epoch, seq, state);
    this.#stateThen(Math.max(1, seq - 3 * PART)).catch(() => { /* asked only so that the server has looked through the record before somebody goes back */ });
  }

  /** Have the part that an event is in; the newest wish counts. @param {number} seq @returns {Promise<void>} */
  reach(seq) {
    const wanted = Math.max(1, Math.min(seq, this.#timeline.headSeq));
    const { part } = this.#past;
    if (wanted > this.#timeline.base || (part && wanted > part.base && wanted <= part.last)) return Promise.resolve();
    this.#wanted = wanted;
    this.#reaching ??= this.#read().finally(() => { this.#reaching = null; });
    return this.#reaching;
  }

  async #read() {
    const timeline = this.#timeline;
    while (this.#wanted) {
      const base = Math.floor((this.#wanted - 1) / PART) * PART;
      this.#wanted = 0;
      const limit = Math.min(PART, timeline.base - base);
      try {
        const told = base ? this.#state(base) : { epoch: timeline.epoch, state: {} };
        const [{ epoch, state }, events] = await Promise.all([told, this.#events(base, limit)]);
        if (epoch !== timeline.epoch || !timeline.inParts) return;
        const { part } = this.#past;
        if (part && part.last - part.base > MOST_KEPT) this.#past.drop();
        this.#past.take(base, state, events);
      } catch { /* what is known can still be shown */ }
      this.#onChange();
    }
  }

  /** @param {number} afterSeq @param {number} limit most events @returns {Promise<LiveEvent[]>} */
  async #events(afterSeq, limit) {
    const response = await this.#ask(`events?after_seq=${afterSeq}&limit=${limit}`);
    return (await response.text()).split("\n").filter(Boolean).map(parseEvent);
  }

  /** The same as `#stateThen`, with reports of progress if it takes long. @param {number | null} at */
  async #state(at) {
    let [waits, slow] = [true, false];
    const follow = () => {
      slow = true;
      this.#follow(at, () => waits).catch(() => { /* whoever waits for the state itself is told */ });
    };
    const timer = setTimeout(follow, SLOW_MS);
    try {
      return await this.#stateThen(at);
    } finally {
      waits = false;
      clearTimeout(timer);
      if (slow) this.#onReading(null);
    }
  }

  /** Ask for earlier places: each is answered once the server has reached it. @param {number | null} at @param {() => boolean} waits */
  async #follow(at, waits) {
    let all = at ?? 0;
    this.#onReading({ done: 0, all });
    for (let done = SPACING; waits(); done += SPACING * Math.ceil(all / STEPS / SPACING)) {
      if (all && done >= all) return;
      const told = await this.#stateThen(done + 1);
      all ||= told.head_seq;
      if (waits()) this.#onReading({ done, all });
    }
  }

  /** What viewers saw after an event. @param {number | null} at `null` for the newest @returns {Promise<{epoch: string, seq: number, head_seq: number, state: Record<string, any>}>} */
  async #stateThen(at) {
    return parseJson(await (await this.#ask(`state${at === null ? "" : `?at=${at}`}`)).text());
  }

  /** @param {string} what */
  async #ask(what) {
    const response = await fetch(new URL(`api/episodes/${encodeURIComponent(this.#episodeId)}/${what}`, this.#root));
    if (!response.ok) throw new Error(`the record answered ${response.status}`);
    return response;
  }
}
