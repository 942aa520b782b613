// @ts-check
// Reads a long episode's past in parts, about wherever somebody goes; fetched where an episode is long.

import { Past } from "./past.js";
import { parseEvent } from "./protocol.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent @typedef {import("./timeline.js").Timeline} Timeline */

/** Events of a part. */
export const PART = 1_000;
/** Events of the past that are kept: a part that would make it more takes the place of all. */
const MOST_KEPT = 5 * PART;

export class PastParts {
  #root; #episodeId; #timeline; #onChange; #past;
  /** @type {Promise<void> | null} */ #reaching = null;
  /** The event that is wanted next; 0 for none. */ #wanted = 0;

  /** @param {string} root @param {string} episodeId @param {Timeline} timeline @param {() => void} onChange */
  constructor(root, episodeId, timeline, onChange) {
    this.#root = root;
    this.#episodeId = episodeId;
    this.#timeline = timeline;
    this.#onChange = onChange;
    this.#past = timeline.past = new Past((base, state) => timeline.begun(base, state));
  }

  async openAtEnd() {
    const { epoch, seq, state } = await this.#state(null);
    this.#timeline.reset(epoch, seq, state);
    this.#state(Math.max(1, seq - 3 * PART)).catch(() => { /* asked only so that the server has looked through the record before somebody goes back */ });
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

  /** What viewers saw after an event. @param {number | null} at the newest where it is `null` @returns {Promise<{epoch: string, seq: number, state: Record<string, any>}>} */
  async #state(at) {
    return (await this.#ask(`state${at === null ? "" : `?at=${at}`}`)).json();
  }

  /** @param {string} what */
  async #ask(what) {
    const response = await fetch(new URL(`api/episodes/${encodeURIComponent(this.#episodeId)}/${what}`, this.#root));
    if (!response.ok) throw new Error(`the record answered ${response.status}`);
    return response;
  }
}
