// @ts-check
// What changes on this server, such as the tiles of the wall or a run: one socket that brings changes, or polling where no socket gets through.

import { parseJson } from "./json.js";
import { applyPatch } from "./merge_patch.js";
import { backoff, socketAddress } from "./protocol.js";

/** @typedef {Record<string, any>} Tile as in docs/live-protocol.md */
/** @typedef {"connecting" | "open" | "polling" | "away"} Phase */

const POLL_MS = 2_000;
const FAILURES_BEFORE_POLLING = 2;

/** What the feed needs from the browser; tests bring their own. */
export const browserPorts = {
  open: (/** @type {string} */ address) => new WebSocket(address),
  fetch: (/** @type {URL} */ address) => fetch(address),
  random: Math.random,
  setTimer: (/** @type {() => void} */ action, /** @type {number} */ ms) => setTimeout(action, ms),
};

export class WallFeed {
  #root; #onTiles; #onPhase; #ports; #what;
  /** @type {Record<string, Tile>} */ #tiles = {};
  /** @type {WebSocket | null} */ #socket = null;
  #version = -1;
  #failures = 0;
  #polling = false;
  #closed = false;

  /**
   * @param {object} wiring
   * @param {string} wiring.root absolute address of the lobby
   * @param {(tiles: Record<string, Tile>) => void} wiring.onTiles
   * @param {(phase: Phase) => void} wiring.onPhase
   * @param {typeof browserPorts} [wiring.ports]
   * @param {{live: string, poll: string, frame: string, field: string, bare?: boolean}} [wiring.what] addresses of the socket and for polling, name of the frames, and of what they hold; whether polling gets that by itself
   */
  constructor({ root, onTiles, onPhase, ports = browserPorts, what = { live: "live/wall", poll: "live/wall", frame: "wall", field: "tiles" } }) {
    this.#root = root;
    this.#what = what;
    this.#onTiles = onTiles;
    this.#onPhase = onPhase;
    this.#ports = ports;
  }

  get tiles() { return this.#tiles; }

  open() {
    this.#version = -1;
    const socket = this.#ports.open(socketAddress(this.#root, this.#what.live));
    this.#socket = socket;
    socket.onmessage = (message) => socket === this.#socket && this.#hear(String(message.data));
    socket.onclose = () => socket === this.#socket && this.#lost();
  }

  close() {
    this.#closed = true;
    this.#drop();
  }

  /** The page was shown again, or the network came back. */
  wake() {
    if (this.#closed || this.#socket?.readyState === 1) return;
    this.#drop();
    this.open();
  }

  /** @param {string} text */
  #hear(text) {
    let frame;
    try { frame = parseJson(text); } catch { return this.#again(); }
    const { frame: name, field } = this.#what;
    if (frame?.frame === name) this.#take(frame.version, frame[field]);
    else if (frame?.frame === `${name}.changed`) {
      if (frame.version !== this.#version + 1) return this.#again();
      this.#take(frame.version, applyPatch(this.#tiles, frame[field]));
    }
  }

  /** @param {number} version @param {Record<string, Tile>} tiles */
  #take(version, tiles) {
    this.#version = version;
    this.#tiles = tiles;
    this.#failures = 0;
    this.#onPhase("open");
    this.#onTiles(tiles);
  }

  #again() {
    this.#drop();
    this.open();
  }

  #lost() {
    this.#socket = null;
    if (this.#closed) return;
    this.#failures += 1;
    this.#ports.setTimer(() => !this.#closed && this.#socket === null && this.open(), backoff(this.#failures, this.#ports.random));
    if (this.#failures < FAILURES_BEFORE_POLLING) this.#onPhase("connecting");
    else if (!this.#polling) {
      this.#polling = true;
      void this.#poll();
    }
  }

  async #poll() {
    this.#polling = this.#failures > 0 && !this.#closed;
    if (!this.#polling) return;
    try {
      const answer = await this.#ports.fetch(new URL(this.#what.poll, this.#root));
      const body = parseJson(await answer.text());
      const tiles = this.#what.bare && answer.ok ? body : body[this.#what.field];
      if (tiles && this.#failures > 0) {
        this.#tiles = tiles;
        this.#onPhase("polling");
        this.#onTiles(tiles);
      }
    } catch {
      this.#onPhase("away");
    }
    this.#ports.setTimer(() => void this.#poll(), POLL_MS);
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }
}
