// @ts-check
// The connection to an episode: opens, listens for signs of life, reconnects by itself, resumes where it was.

import { backoff, parseFrame } from "./protocol.js";

/** @typedef {import("./protocol.js").Frame} Frame */
/** @typedef {import("./ways.js").Way} Way */
/** @typedef {import("./ways.js").Line} Line */
/** @typedef {{phase: "connecting" | "open" | "waiting" | "closed", way: Way["name"], retryInMs?: number, attempt: number, reason: string}} Status */

const PING_EVERY_MS = 5_000;
/** Attempts without an answer after which the next way is tried. */
const TRIES_A_WAY = 2;
/** After how long on a lesser way the better one is taken again: chance parts those whom one restart sent here together. */
const BACK_AFTER_MS = { least: 2_000, most: 12_000 };

/** What the connection needs from the browser; tests bring their own. */
export const browserPorts = {
  now: () => performance.now(),
  random: Math.random,
  setTimer: (/** @type {() => void} */ action, /** @type {number} */ ms) => setTimeout(action, ms),
  clearTimer: (/** @type {any} */ timer) => clearTimeout(timer),
};

export class Connection {
  #ways; #onFrame; #onStatus; #ports;
  /** @type {Line | null} */ #socket = null;
  /** @type {any} */ #retry = null;
  /** @type {any} */ #pulse = null;
  /** @type {any} */ #back = null;
  /** The best way that was ever answered here; a better one may be shut by something between. */ #proven = Infinity;
  #attempt = 0;
  #way = 0;
  #unanswered = 0;
  #heardAt = 0;
  #greeted = false;
  #final = false;
  #reason = "";

  /**
   * @param {object} wiring
   * @param {Way[]} wiring.ways the better first; the next is tried when one is not answered
   * @param {(frame: Frame) => void} wiring.onFrame
   * @param {(status: Status) => void} wiring.onStatus
   * @param {typeof browserPorts} [wiring.ports]
   */
  constructor({ ways, onFrame, onStatus, ports = browserPorts }) {
    this.#ways = ways;
    this.#onFrame = onFrame;
    this.#onStatus = onStatus;
    this.#ports = ports;
  }

  open() {
    this.#ports.clearTimer(this.#retry);
    this.#retry = null;
    this.#greeted = false;
    this.#report("connecting");
    const way = this.#ways[this.#way];
    const socket = way.open(way.address());
    this.#socket = socket;
    this.#heardAt = this.#ports.now();
    socket.onmessage = (message) => socket === this.#socket && this.#hear(message.data);
    socket.onclose = (closed) => socket === this.#socket && this.#lost(closed.reason);
    this.#schedulePulse();
  }

  /** Close for good. @param {string} reason */
  close(reason) {
    this.#final = true;
    this.#drop();
    this.#ports.clearTimer(this.#retry);
    this.#reason = reason;
    this.#report("closed");
  }

  /** Begin a new connection at once: something was missed. */
  resync() {
    if (this.#final) return;
    this.#drop();
    this.open();
  }

  /** The page was shown or the network came back: look whether the connection still lives. */
  wake() {
    if (this.#final) return;
    if (this.#retry !== null || this.#ports.now() - this.#heardAt > this.#ways[this.#way].deadAfterMs) this.resync();
    else this.#ping();
  }

  /** @param {unknown} text */
  #hear(text) {
    this.#heardAt = this.#ports.now();
    let frame;
    try {
      frame = parseFrame(String(text));
    } catch (error) {
      this.#reason = `unreadable frame: ${error instanceof Error ? error.message : error}`;
      this.#drop();
      return this.#lost(this.#reason);
    }
    if (frame === null) return;
    if (frame.frame === "hello") this.#greet();
    if (frame.frame === "bye") {
      this.#reason = frame.reason;
      this.#final = !frame.reconnect;
    }
    this.#onFrame(frame);
  }

  #greet() {
    this.#greeted = true;
    this.#attempt = 0;
    this.#unanswered = 0;
    this.#reason = "";
    if (this.#way <= this.#proven) this.#proven = this.#way;
    else this.#back = this.#ports.setTimer(() => this.#takeBetterWay(), BACK_AFTER_MS.least + this.#ports.random() * (BACK_AFTER_MS.most - BACK_AFTER_MS.least));
    this.#report("open");
    this.#ping();
  }

  /** Once, and at the first miss away again: what was open before the server was away may be shut now. */
  #takeBetterWay() {
    this.#way = this.#proven;
    this.#proven = Infinity;
    this.#unanswered = TRIES_A_WAY - 1;
    this.resync();
  }

  /** @param {string} reason */
  #lost(reason) {
    this.#socket = null;
    this.#stopTimers();
    this.#reason ||= reason;
    if (this.#final) return this.#report("closed");
    if (!this.#greeted) this.#tryAnotherWay();
    const wait = backoff(this.#attempt, this.#ports.random);
    this.#attempt += 1;
    this.#retry = this.#ports.setTimer(() => this.open(), wait);
    this.#report("waiting", wait);
  }

  #tryAnotherWay() {
    this.#unanswered += 1;
    if (this.#unanswered % TRIES_A_WAY === 0) this.#way = (this.#way + 1) % this.#ways.length;
  }

  #schedulePulse() {
    this.#ports.clearTimer(this.#pulse);
    this.#pulse = this.#ports.setTimer(() => {
      if (this.#ports.now() - this.#heardAt > this.#ways[this.#way].deadAfterMs) {
        this.#drop();
        return this.#lost("no sign of life");
      }
      this.#ping();
      this.#schedulePulse();
    }, PING_EVERY_MS);
  }

  #ping() { this.send({ frame: "ping", t: Math.round(this.#ports.now()) }); }

  /** Send a message to the server. @param {object} message @returns {boolean} whether this way carries it */
  send(message) {
    if (!this.#greeted || this.#socket?.readyState !== 1) return false;
    this.#socket.send(JSON.stringify(message));
    return this.#ways[this.#way].name === "socket";
  }

  #stopTimers() {
    this.#ports.clearTimer(this.#pulse);
    this.#ports.clearTimer(this.#back);
  }

  #drop() {
    this.#stopTimers();
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** @param {Status["phase"]} phase @param {number} [retryInMs] */
  #report(phase, retryInMs) {
    this.#onStatus({ phase, way: this.#ways[this.#way].name, retryInMs, attempt: this.#attempt, reason: this.#reason });
  }
}
