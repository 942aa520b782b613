// @ts-check
// Chooses which episode a wall shows large, and says why; pure.

/** @typedef {import("./sight.js").Named} Named */

/** Least time that an episode stays large while it runs. */
export const STAY_MS = 20_000;
/** Time that one stays large after its end, so that the end is seen. */
export const END_MS = 8_000;
/** A change of the chance to win counts for so long, ever less. */
const SWING_MS = 60_000;
/** The same for an urgent line. */
const LOUD_MS = 20_000;
/** How much heavier another episode must be to replace the large one. */
const BETTER = 0.5;
/** Points of a swing, of 1, from which it is named. */
const NAMED = 0.1;

/** What a reason weighs at most. */
const WEIGHTS = { swing: 12, suspense: 10, loud: 1.5, progress: 1 };

/** @typedef {{chances: {at: number, chance: number}[], line: string, loudAt: number}} Seen what was seen of an episode lately */

export class Director {
  /** @type {Map<string, Seen>} */ #seen = new Map();
  /** @type {{id: string, since: number, toldAt: number, why: string} | null} */ #held = null;

  /** Take note of what runs. @param {Record<string, any>} tiles @param {number} now milliseconds */
  take(tiles, now) {
    for (const id of this.#seen.keys()) if (!tiles[id]) this.#seen.delete(id);
    for (const [id, tile] of Object.entries(tiles)) {
      const line = `${tile.line?.at ?? ""} ${tile.line?.text ?? ""}`;
      const before = this.#seen.get(id);
      const seen = before ?? { chances: [], line, loudAt: -Infinity };
      this.#seen.set(id, seen);
      if (line !== seen.line) {
        seen.line = line;
        if (tile.line?.priority <= 1) seen.loudAt = now;
      }
      seen.chances = seen.chances.filter(({ at }, place) => now - at <= SWING_MS || place === seen.chances.length - 1);
      if (typeof tile.chance === "number" && seen.chances.at(-1)?.chance !== tile.chance) seen.chances.push({ at: now, chance: tile.chance });
    }
  }

  /**
   * What to show large, and why; it keeps its choice for a while, so that the view does not jump.
   * @param {Named[]} found what may be shown @param {number} now milliseconds @param {string} [wanted] the episode that the viewer pinned
   * @returns {{id: string, why: string} | null}
   */
  choose(found, now, wanted = "") {
    if (found.some(([id]) => id === wanted)) return this.#hold(wanted, "you chose it", now);
    const held = this.#held && found.find(([id]) => id === this.#held?.id);
    if (this.#held && held && now - this.#held.since < (held[1].status === "ended" ? END_MS : STAY_MS)) return this.#hold(held[0], held[1].status === "ended" ? "it has just ended" : this.#held.why, now);
    const running = found.filter(([, tile]) => tile.status !== "ended").map((named) => ({ named, reasons: this.#reasons(named, now) }));
    const weigh = (/** @type {{weight: number}[]} */ reasons) => reasons.reduce((sum, { weight }) => sum + weight, 0);
    const best = running.reduce((/** @type {typeof running[0] | null} */ chosen, one) => (chosen && weigh(chosen.reasons) >= weigh(one.reasons) ? chosen : one), null);
    const now_ = held && running.find(({ named }) => named[0] === held[0]);
    const chosen = now_ && best && weigh(best.reasons) < weigh(now_.reasons) + BETTER ? now_ : best;
    if (!chosen) return held ? this.#hold(held[0], "it has just ended", now) : (this.#held = null);
    return this.#hold(chosen.named[0], chosen === now_ && this.#held && now - this.#held.toldAt < STAY_MS ? this.#held.why : whyOf(chosen.reasons), now);
  }

  /** @param {string} id @param {string} why @param {number} now */
  #hold(id, why, now) {
    const same = this.#held?.id === id;
    this.#held = { id, why, since: same && this.#held ? this.#held.since : now, toldAt: same && this.#held?.why === why ? this.#held.toldAt : now };
    return { id, why };
  }

  /** @param {Named} named @param {number} now @returns {{name: keyof typeof WEIGHTS, weight: number, moved: number}[]} */
  #reasons([id, tile], now) {
    const seen = this.#seen.get(id);
    const newest = seen?.chances.at(-1)?.chance ?? 0;
    const moves = (seen?.chances ?? []).map(({ at, chance }) => ({ moved: Math.abs(newest - chance), fresh: Math.max(0, 1 - (now - at) / SWING_MS) }));
    const { moved, fresh } = moves.reduce((most, one) => (one.moved * one.fresh > most.moved * most.fresh ? one : most), { moved: 0, fresh: 0 });
    const loud = Math.max(0, 1 - (now - (seen?.loudAt ?? -Infinity)) / LOUD_MS);
    const shares = { swing: moved < NAMED ? 0 : moved * fresh, suspense: Number(tile.glance?.suspense ?? 0), loud, progress: Number(tile.glance?.progress ?? 0) };
    return /** @type {(keyof typeof WEIGHTS)[]} */ (Object.keys(WEIGHTS)).map((name) => ({ name, weight: WEIGHTS[name] * shares[name], moved }));
  }
}

/** @param {{name: keyof typeof WEIGHTS, weight: number, moved: number}[]} reasons */
function whyOf(reasons) {
  const { name, moved, weight } = reasons.reduce((most, one) => (one.weight > most.weight ? one : most));
  if (weight <= 0) return "it has just begun";
  return { swing: `the chance to win moved ${Math.round(100 * moved)} points`, suspense: "it could go either way", loud: "something big has just happened", progress: "it is the furthest along" }[name];
}
