// @ts-check
// Owns the connection to an episode: opens, listens for signs of life, reconnects by itself, resumes where it was.

import { backoff, parseFrame } from "./protocol.js";

/** @typedef {import("./protocol.js").Frame} Frame */
/** @typedef {{phase: "connecting" | "open" | "waiting" | "closed", retryInMs?: number, attempt: number, reason: string}} Status */

const PING_EVERY_MS = 5_000;
const DEAD_AFTER_MS = 20_000;

/** What the connection needs from the browser; tests bring their own. */
export const browserPorts = {
  open: (/** @type {string} */ address) => new WebSocket(address),
  now: () => performance.now(),
  random: Math.random,
  setTimer: (/** @type {() => void} */ action, /** @type {number} */ ms) => setTimeout(action, ms),
  clearTimer: (/** @type {any} */ timer) => clearTimeout(timer),
};

export class Connection {
  #address; #onFrame; #onStatus; #ports;
  /** @type {WebSocket | null} */ #socket = null;
  /** @type {any} */ #retry = null;
  /** @type {any} */ #pulse = null;
  #attempt = 0;
  #heardAt = 0;
  #greeted = false;
  #final = false;
  #reason = "";

  /**
   * @param {object} wiring
   * @param {() => string} wiring.address asked before every attempt, so that it can say what the viewer has
   * @param {(frame: Frame) => void} wiring.onFrame
   * @param {(status: Status) => void} wiring.onStatus
   * @param {typeof browserPorts} [wiring.ports]
   */
  constructor({ address, onFrame, onStatus, ports = browserPorts }) {
    this.#address = address;
    this.#onFrame = onFrame;
    this.#onStatus = onStatus;
    this.#ports = ports;
  }

  open() {
    this.#ports.clearTimer(this.#retry);
    this.#retry = null;
    this.#greeted = false;
    this.#report("connecting");
    const socket = this.#ports.open(this.#address());
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
    if (this.#retry !== null || this.#ports.now() - this.#heardAt > DEAD_AFTER_MS) this.resync();
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
    this.#reason = "";
    this.#report("open");
    this.#ping();
  }

  /** @param {string} reason */
  #lost(reason) {
    this.#socket = null;
    this.#ports.clearTimer(this.#pulse);
    this.#reason ||= reason;
    if (this.#final) return this.#report("closed");
    const wait = backoff(this.#attempt, this.#ports.random);
    this.#attempt += 1;
    this.#retry = this.#ports.setTimer(() => this.open(), wait);
    this.#report("waiting", wait);
  }

  #schedulePulse() {
    this.#ports.clearTimer(this.#pulse);
    this.#pulse = this.#ports.setTimer(() => {
      if (this.#ports.now() - this.#heardAt > DEAD_AFTER_MS) {
        this.#drop();
        return this.#lost("no sign of life");
      }
      this.#ping();
      this.#schedulePulse();
    }, PING_EVERY_MS);
  }

  #ping() {
    if (this.#greeted && this.#socket?.readyState === 1) {
      this.#socket.send(JSON.stringify({ frame: "ping", t: Math.round(this.#ports.now()) }));
    }
  }

  #drop() {
    this.#ports.clearTimer(this.#pulse);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  /** @param {Status["phase"]} phase @param {number} [retryInMs] */
  #report(phase, retryInMs) {
    this.#onStatus({ phase, retryInMs, attempt: this.#attempt, reason: this.#reason });
  }
}
