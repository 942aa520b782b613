// @ts-check
// A world's panel on the page: mounts it, feeds it, and takes it down with a notice when it fails.

import * as charts from "../charts/charts.js";
import { foreignWords } from "../live/decisions.js";
import { h, keyed, replace, setAttribute, setText, svg } from "./dom.js";
import { momentLink } from "./go_to.js";
import { drawParts } from "./parts.js";
import * as text from "./text.js";

/**
 * What a panel is given beside its root.
 * @typedef {object} PanelContext
 * @property {HTMLElement} banner above everything, for the score
 * @property {HTMLElement} lead beside the mind, for what just happened
 * @property {typeof tools} ui element builders and writers of text
 * @property {typeof charts} charts scales and marks
 * @property {(parts: import("./parts.js").Part[]) => {update(world: any, moves: boolean): void, destroy(): void}} parts draws what is in view at once and the rest when there is time
 * @property {() => {seq: number, note: any}[]} notes what the panel's own `note` gave for the events that are known, in order
 * @property {() => Promise<void>} whole has every event since the first read, so that `notes` is whole
 * @property {() => Promise<any>} truth what was hidden, from the sealed record; null before the end, or without one
 * @property {() => boolean} still whether nothing may move: reduced motion, a hidden tab, far behind
 */

/** @typedef {{title: string, lines: string[]}} Section */

/**
 * What a panel module exports as its default.
 * @typedef {object} Panel
 * @property {(root: HTMLElement, ctx: PanelContext) => {update(state: any, event: any): void, destroy(): void}} mount
 * @property {(state: any) => Section[] | Promise<Section[]>} [sections] everything the panel shows, in words, for those who read it
 * @property {(state: any) => Promise<string>} [best] who did best, from the last state
 * @property {(state: any) => Record<string, string>} [names] what people call the actors
 * @property {(name: string, value: any) => [string, string]} [argument] an argument of a call in words: its name, and its value with the unit
 * @property {(state: any) => number} [since] number of the event before which decisions belong to a finished part of the play
 * @property {(state: any, stateAt: (moment: string) => any) => import("./ending.js").Turn[]} [turns] what turned the play, from its last state; `stateAt` gives null where the moment is not known
 * @property {(event: any) => string[]} [moments] what the world calls an event, for `ui.momentLink` and `data-moment`
 * @property {(event: any, before: any) => number} [weight] how much an event matters, 0 for most: the heaviest are marked on the timeline; `before` is the state that it changed
 * @property {(event: any, before: any) => any} [note] what it wants kept of an event, for `ctx.notes()`; null for nothing
 * @property {() => Promise<import("./seat_controls.js").SeatModule>} [seat] fetches the controls of a person's seat in the world's own words; the panel's `seat.css` is loaded with them
 * @property {(event: any) => {actor: string, points: number}[]} [worths] what the event says that the newest decisions were worth
 */

const tools = { h, svg, keyed, replace, setText, setAttribute, momentLink, foreignWords, ...text };

/**
 * @param {string} address of the module; empty when the world has none
 * @param {{banner: HTMLElement, lead: HTMLElement, body: HTMLElement}} slots
 * @param {() => boolean} still
 * @param {() => Promise<any>} truth
 * @param {() => {seq: number, note: any}[]} notes
 * @param {() => Promise<void>} whole
 */
export async function hostPanel(address, slots, still, truth, notes, whole) {
  /** @type {Panel | null} */
  let panel = null;
  /** @type {ReturnType<Panel["mount"]> | null} */
  let mounted = null;

  const fail = (/** @type {unknown} */ error) => {
    console.error("the panel failed", error);
    try { mounted?.destroy(); } catch { /* it has already failed */ }
    panel = mounted = null;
    replace(slots.banner);
    replace(slots.lead);
    replace(slots.body, h("div", { class: "notice notice--bad", role: "alert" },
      h("p", {}, h("b", {}, "This world’s panel failed, so its board is not shown.")),
      h("p", {}, "The decisions, the commentary and the record are not affected. Reload the page to try it again."),
      h("p", { class: "quiet" }, text.clip(text.plain(error), 200))));
  };
  const attempt = (/** @type {() => any} */ action, /** @type {any} */ otherwise) => {
    try {
      return action() ?? otherwise;
    } catch (error) {
      fail(error);
      return otherwise;
    }
  };

  replace(slots.body);
  if (address) {
    try {
      panel = (await import(address)).default;
      mounted = /** @type {Panel} */ (panel).mount(slots.body, { banner: slots.banner, lead: slots.lead, ui: tools, charts, still, truth, notes, whole, parts: (parts) => drawParts(parts, fail) });
    } catch (error) {
      fail(error);
    }
  }
  return {
    get present() { return mounted !== null; },
    /** @param {any} state @param {any} event the event that led here by one step, or null after a jump */
    update(state, event) { if (mounted) attempt(() => mounted?.update(state, event), undefined); },
    /** @param {any} state @returns {Record<string, string>} */
    names(state) { return panel?.names ? attempt(() => panel?.names?.(state), {}) : {}; },
    /** @type {import("./mind.js").Argument} */
    argument: (name, value) => attempt(() => panel?.argument?.(name, value), undefined),
    /** @param {any} state @returns {number} */
    since(state) { return panel?.since ? attempt(() => panel?.since?.(state), 0) : 0; },
    /** @param {any} state @param {(moment: string) => any} stateAt @returns {import("./ending.js").Turn[]} */
    turns(state, stateAt) { return panel?.turns ? attempt(() => panel?.turns?.(state, stateAt), []) : []; },
    /** What the world says of events as they come. @type {import("../live/ledger.js").Reading} */
    reading: {
      names: (event) => (panel?.moments ? attempt(() => panel?.moments?.(event), []) : []),
      weight: panel?.weight ? (event, before) => (panel?.weight ? attempt(() => panel?.weight?.(event, before), 0) : 0) : null,
      note: (event, before) => (panel?.note ? attempt(() => panel?.note?.(event, before), null) : null),
      worths: (event) => (panel?.worths ? attempt(() => panel?.worths?.(event), []) : []),
    },
    /** @param {any} state @returns {Promise<Section[]>} */
    async sections(state) {
      try { return await panel?.sections?.(state) ?? []; } catch (error) { return fail(error), []; }
    },
    /** @param {any} state @returns {Promise<string>} */
    async best(state) {
      try { return await panel?.best?.(state) ?? ""; } catch (error) { return fail(error), ""; }
    },
    /** @param {any} state @returns {string} */
    headline(state) { return text.plain(state.world?.headline ?? ""); },
  };
}
