// @ts-check
// The controls of a seat: its world's own, in its own words, or a form of every action by its schema.

import * as charts from "../charts/charts.js";
import { h, keyed, replace, setAttribute, setText, svg } from "./dom.js";
import { makeSeatForm } from "./seat_form.js";
import { factsOf } from "./seat_words.js";
import * as text from "./text.js";

const [FEW, PROMPT] = [6, 40_000];

/** @typedef {{tool: string, arguments: any}} Call */
/**
 * What a world's controls are given.
 * @typedef {object} SeatTools
 * @property {any} ui element builders and writers of text, as for panels
 * @property {typeof charts} charts scales and marks
 * @property {(calls: Call[], reason: string) => void} send decides: the calls one after another, the last one goes on
 * @property {(calls: Call[]) => Promise<any>} weigh what the world's `weigh_draft` says of a draft; null where it cannot
 */
/**
 * @typedef {object} Controls
 * @property {HTMLElement} element
 * @property {(asked: any, again: Call[] | null) => void} ask shows a decision; `again` holds what was just refused
 * @property {(on: boolean) => void} enable
 * @property {(index: number) => boolean} pick chooses by the keys 1 to 9; false where nothing was
 * @property {() => void} send
 * @property {() => void} focus
 * @property {(message: string, problems: {field: string, rule: string}[]) => void} refuse
 * @property {(state: any, mine: string[]) => string} [won] the victory of these actors in a line to share; empty where there is none
 */

/** @typedef {{makeSeat: (tools: SeatTools) => Controls}} SeatModule */

/** @param {{send: SeatTools["send"], weigh: SeatTools["weigh"]}} wiring */
export function makeControls({ send, weigh }) {
  const form = makeSeatForm({ onSend: (action, reason) => send([action], reason) });
  const [task, facts] = [h("p", { class: "seat__task" }), h("dl", { class: "seat__facts" })];
  const sight = h("details", {}, h("summary", {}, "What you see"), facts);
  const prompt = h("pre", { dir: "auto", tabindex: "0", "aria-label": "What a language model would be asked" });
  const general = h("div", {}, task, form.element, sight, h("details", { class: "mind__raw" }, h("summary", {}, "What a language model would be asked"), prompt));
  const place = h("div", {}, general);
  const swap = h("button", { class: "more", type: "button", hidden: true }, "Every action as a form");
  const element = h("div", {}, place, swap);
  /** @type {Controls | null} */ let own = null;
  /** @type {[any, Call[] | null] | null} */ let newest = null;
  let [inForm, chosenSight] = [false, false];
  const shown = () => (own && !inForm ? own : form);

  /** @param {any} next @param {Call[] | null} again */
  function fillForm(next, again) {
    const seen = factsOf(next.situation);
    setText(task, seen.sentences.join(" "));
    task.hidden = seen.sentences.length === 0;
    replace(facts, ...seen.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("bdi", {}, value)))));
    if (!chosenSight) sight.open = seen.facts.length <= FEW;
    setText(prompt, text.clip(text.plain(next.prompt), PROMPT));
    form.ask(next.legal_actions, again?.at(-1) ?? null);
  }

  function ask() {
    const part = own && !inForm ? own.element : general;
    if (part.parentElement !== place) replace(place, part);
    if (!newest) return;
    if (shown() === form) fillForm(...newest);
    else own?.ask(...newest);
  }

  swap.addEventListener("click", () => {
    inForm = !inForm;
    setText(swap, inForm ? "Back to the picture" : "Every action as a form");
    ask();
  });
  sight.firstElementChild?.addEventListener("click", () => { chosenSight = true; });

  /** Fetch the world's own controls; without them the form serves. */
  async function fetchOwn() {
    const address = document.getElementById("main")?.dataset.panel;
    if (!address) return;
    try {
      const module = (await import(new URL(`${address}/panel.js`, location.href).href)).default.seat?.();
      if (!module) return;
      await new Promise((done) => document.head.append(h("link", { rel: "stylesheet", href: new URL(`${address}/seat.css`, location.href).href, on: { load: done, error: done } })));
      own = (await module).makeSeat({ ui: { h, svg, keyed, replace, setText, setAttribute, ...text }, charts, send, weigh });
      swap.hidden = false;
    } catch (error) {
      console.warn("the world's own seat could not be fetched", error);
    }
  }
  /** @type {Promise<void> | null} */ let fetched = null;

  return {
    element,
    /** Resolves once the controls are known. */
    ready: () => (fetched ??= fetchOwn()),
    /** Whether the world's own are shown. */
    isOwn: () => shown() === own,
    /** @param {any} asked @param {Call[] | null} again */
    ask(asked, again) {
      const isNew = asked.situation?.phase !== newest?.[0].situation?.phase;
      newest = [asked, again];
      ask();
      const seat = element.closest(".seat");
      const { top = 0, bottom = 0 } = seat?.getBoundingClientRect() ?? {};
      if (isNew && top < 0 && bottom > 0) seat?.scrollIntoView({ block: "start" }); // another question is read from its head
    },
    /** @param {boolean} on */
    enable(on) { shown().enable(on); },
    /** @param {number} index */
    pick: (index) => shown().pick(index),
    send() { shown().send(); },
    focus() { shown().focus(); },
    /** @param {string} message @param {{field: string, rule: string}[]} problems */
    refuse(message, problems) { shown().refuse(message, problems); },
    /** @param {any} state @param {string[]} mine */
    won: (state, mine) => own?.won?.(state, mine) ?? "",
  };
}
