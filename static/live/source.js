// @ts-check
// Where a page's events come from: a live connection, or the record for the past and without a connection.

import { readRecord, readWholeRecord } from "./record.js";
import { Connection } from "./socket.js";
import { waysTo } from "./ways.js";

/** @typedef {import("./protocol.js").LiveEvent} LiveEvent */
/** @typedef {import("./timeline.js").Timeline} Timeline */
/** @typedef {Omit<import("./socket.js").Status, "phase"> & {phase: import("./socket.js").Status["phase"] | "record"}} Link */

const POLL_MS = 2_000;
/** Attempts without an answer, on every way, after which the record is asked instead. */
const PATIENCE = 2;
/** Events beyond a place that are read before they are played. */
const AHEAD = 400;

export class Source {
  #root; #episodeId; #timeline; #onChange; #onFrame; #onReading; #connection;
  /** @type {Promise<void> | null} */ #reading = null;
  /** @type {Promise<unknown> | null} what the page begins with, where that is the record */ #opening = null;
  /** @type {Promise<import("./past_parts.js").PastParts> | null} */ #parts = null;
  #connected = false;
  /** Whether the record is being asked now. */ #asking = false;
  /** Whether the record answers in the place of a connection. */ #polling = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #poll;
  /** @type {Link} */ link = { phase: "connecting", way: "socket", attempt: 0, reason: "" };
  /** Viewers, as the server last reported. @type {number | null} */ viewers = null;
  /** Milliseconds to the server and back, smoothed. @type {number | null} */ lag = null;

  /**
   * @param {object} wiring
   * @param {string} wiring.root absolute address of the lobby
   * @param {string} wiring.episodeId
   * @param {Timeline} wiring.timeline what every event is added to
   * @param {() => void} wiring.onChange after anything that can be seen
   * @param {(frame: import("./protocol.js").Frame) => void} [wiring.onFrame] every frame, after it was taken
   * @param {(reading: import("./past_parts.js").Reading | null) => void} [wiring.onReading] how far the server is with a long record
   */
  constructor({ root, episodeId, timeline, onChange, onFrame = () => {}, onReading }) {
    this.#root = root;
    this.#episodeId = episodeId;
    this.#timeline = timeline;
    this.#onChange = onChange;
    this.#onFrame = onFrame;
    this.#onReading = onReading;
    this.#connection = new Connection({
      ways: waysTo(root, `live/${encodeURIComponent(episodeId)}`, () => (timeline.epoch ? { epoch: timeline.epoch, seq: timeline.headSeq } : null)),
      onFrame: (frame) => this.#hear(frame),
      onStatus: (status) => this.#notice(status),
    });
  }

  get over() { return this.#timeline.headState.episode?.status === "ended"; }

  /** Follow what happens. */
  connect() {
    this.#connected = true;
    this.#connection.open();
  }

  /** Send a message to the server. @param {object} message @returns {boolean} whether it is on its way */
  send(message) { return this.#connection.send(message); }

  /** The page was shown, or the network came back. */
  wake() {
    if (this.#connected && !this.over) this.#connection.wake();
  }

  /** The page came from the browser's back/forward cache: its data is old. */
  restart() {
    if (this.#connected && !this.over) this.#connection.resync();
  }

  /** Read the record from its beginning. @param {() => void} [onSome] after every part of it */
  async read(onSome = () => {}) {
    this.#opening = readRecord(this.#root, this.#episodeId, this.#timeline.headSeq, (events) => {
      events.forEach((event) => this.#take(event));
      onSome();
    });
    try {
      await this.#opening;
    } finally {
      this.#opening = null;
    }
    if (!this.#connected) this.link = { phase: "closed", way: "socket", attempt: 0, reason: "" };
    this.#onChange();
  }

  /** Have every event since the first, so that the past can be shown; one reading at a time, the page's first one included. */
  whole() {
    if (this.#opening) return this.#opening.catch(() => { /* whoever began it is told */ });
    if (this.#timeline.complete) return Promise.resolve();
    this.#reading ??= readWholeRecord(this.#root, this.#episodeId).then((record) => this.#timeline.complement(record))
      .catch(() => { /* what is known can still be shown */ })
      .finally(() => {
        this.#reading = null;
        this.#onChange();
      });
    return this.#reading;
  }

  /** Begin with the newest state, not with the first event: what a long record allows in no time. */
  async openAtEnd() {
    await (await this.#past()).openAtEnd();
    if (!this.#connected) this.link = { phase: "closed", way: "socket", attempt: 0, reason: "" };
    this.#onChange();
  }

  /** Load the events around a past one: its part of a long record, or everything. @param {number} seq */
  async reach(seq) {
    if (!this.#timeline.inParts) return this.whole();
    return this.#past().then((past) => past.reach(seq), () => { /* what is known can still be shown */ });
  }

  /** Read what is going to be played next. @param {import("./player.js").Player} player */
  stayAhead({ playing, seq }) {
    const { inParts, base } = this.#timeline;
    if (playing && inParts && seq < base) void this.reach(Math.min(seq + AHEAD, base));
  }

  #past() {
    this.#parts ??= this.#fetchParts().catch((error) => { this.#parts = null; throw error; });
    return this.#parts;
  }

  async #fetchParts() {
    const { PastParts } = await import("./past_parts.js");
    return new PastParts(this.#root, this.#episodeId, this.#timeline, this.#onChange, this.#onReading);
  }

  /** @param {LiveEvent} event @returns {boolean} whether something is missing before it */
  #take(event) {
    const outcome = this.#timeline.push(event);
    if (outcome === "added") this.#onChange();
    return outcome === "gap";
  }

  /** @param {import("./protocol.js").Frame} frame */
  #hear(frame) {
    if (frame.frame === "snapshot") this.#timeline.reset(frame.epoch, frame.seq, frame.state);
    if (frame.frame === "event" && this.#take(frame)) return this.#connection.resync();
    if (frame.frame === "hello") this.viewers = frame.viewers ?? null;
    if (frame.frame === "viewers") this.viewers = frame.count;
    if (frame.frame === "pong") this.#measure(performance.now() - frame.t);
    this.#onFrame(frame);
    this.#onChange();
    if (this.over) this.#connection.close("");
  }

  /** @param {import("./socket.js").Status} status */
  #notice(status) {
    const trying = status.phase === "connecting" || status.phase === "waiting";
    if (!trying) this.#polling = false;
    this.link = this.#polling ? { ...status, phase: "record" } : status;
    if (status.phase === "waiting" || status.phase === "closed") void this.#catchUp();
    this.#onChange();
  }

  /** @param {number} took milliseconds */
  #measure(took) {
    this.lag = this.lag === null ? took : 0.7 * this.lag + 0.3 * took;
  }

  /** Poll the record while no connection opens. */
  async #catchUp() {
    if (this.over || this.#asking) return;
    clearTimeout(this.#poll);
    this.#asking = true;
    try {
      await readRecord(this.#root, this.#episodeId, this.#timeline.headSeq, (events) => events.forEach((event) => this.#take(event)));
      this.#polling = this.link.phase !== "open" && this.link.attempt > PATIENCE;
    } catch {
      this.#polling = false; // the server is away: the connection keeps trying
    }
    this.#asking = false;
    if (this.over) return this.#connection.close("");
    if (this.#polling) {
      this.link = { ...this.link, phase: "record" };
      this.#poll = setTimeout(() => this.#catchUp(), POLL_MS);
    }
    this.#onChange();
  }
}
