// @ts-check
// Owns the card of who decides: the thought, the call, what was refused, and where the decision came from.

import { h, keyed, replace, setAttribute, setText } from "./dom.js";
import { argumentText, clip, duration, plain, plural, said, words } from "./text.js";

const THOUGHT = 420;
const RAW = 2_000;
const ARGUMENTS = 12;

/** @param {HTMLElement} card */
export function mountMind(card) {
  const list = h("div", { class: "mind" });
  card.append(h("header", { class: "card__head" }, h("h2", {}, "The captain’s mind")), list);
  /** @type {Map<string, ReturnType<typeof seat>>} */
  const seats = new Map();
  /** @type {unknown[]} */
  let drawn = [];

  return {
    /** @param {Record<string, any>} state @param {{names: Record<string, string>, thinking: string | null}} view */
    update(state, view) {
      const seen = [state.decisions, state.refusals, state.episode?.seats, view.thinking, JSON.stringify(view.names)];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const agent = state.episode?.agent;
      const actors = Object.keys(state.episode?.seats ?? {}).sort((a, b) => Number(b === agent) - Number(a === agent));
      keyed(list, actors, (actor) => actor, (actor) => {
        const made = seat(actor !== agent);
        seats.set(actor, made);
        return made.element;
      });
      for (const actor of actors) {
        seats.get(actor)?.update({
          name: view.names[actor] ?? words(actor),
          seat: state.episode.seats[actor] ?? {},
          decision: state.decisions?.[actor],
          refusals: state.refusals?.[actor] ?? 0,
          thinking: view.thinking === actor,
        });
      }
    },
  };
}

/** One actor's part of the card. @param {boolean} other whether it is not the agent's own seat */
function seat(other) {
  const name = h("bdi");
  const label = h("bdi", { class: "quiet" });
  const source = h("span", { class: "mind__source" });
  const cost = h("span", { class: "mind__cost" });
  const thought = said("p", "mind__thought", THOUGHT);
  const caret = h("span", { class: "mind__caret", hidden: true, title: "thinking" });
  thought.element.append(caret);
  const call = h("p", { class: "call" });
  const notes = h("div");
  const raw = said("pre", "", RAW);
  const rawBox = h("details", { class: "mind__raw", hidden: true }, h("summary", {}, "What the model wrote"), raw.element);
  const element = h("div", { class: other ? "mind__seat mind__seat--other" : "mind__seat" },
    h("div", { class: "mind__who" }, h("b", {}, name), cost), h("p", { class: "mind__by" }, source, " ", label),
    thought.element, call, notes, rawBox);
  /** @type {unknown} */
  let shown = null;

  /** @param {{name: string, seat: any, decision: any, refusals: number, thinking: boolean}} view */
  const update = (view) => {
    setText(name, clip(plain(view.name), 60));
    setText(label, clip(plain(view.decision?.model ?? view.seat.label ?? ""), 60));
    caret.hidden = !view.thinking;
    if (shown === view.decision && shown !== null) return;
    shown = view.decision ?? null;
    const decision = view.decision ?? {};
    const kind = decision.source ?? view.seat.source ?? "";
    setText(source, kind);
    setAttribute(source, "data-source", kind);
    setText(cost, costText(decision));
    thought.show(decision.reasoning || (view.decision ? "No reason given." : "Has not decided yet."));
    thought.element.classList.toggle("mind__thought--none", !decision.reasoning);
    replace(call, ...callParts(decision.action));
    replace(notes, ...noteParts(decision, view.refusals));
    rawBox.hidden = !decision.raw_text;
    raw.show(decision.raw_text ?? "");
  };
  return { element, update };
}

/** @param {any} decision */
function costText(decision) {
  const parts = decision.latency_s === undefined ? [] : [duration(decision.latency_s)];
  const tokens = (decision.tokens_in ?? 0) + (decision.tokens_out ?? 0);
  if (tokens) parts.push(plural(tokens, "token"));
  return parts.join(" · ");
}

/** A tool call, or whatever else an action holds. @param {any} action */
export function callParts(action) {
  if (typeof action !== "object" || action === null) return [h("span", { class: "call__arg" }, "no call yet")];
  const named = typeof action.tool === "string";
  const given = Object.entries(named ? action.arguments ?? {} : action);
  const parts = given.slice(0, ARGUMENTS).map(([key, value]) =>
    h("span", { class: "call__arg" }, h("bdi", {}, clip(words(key), 40)), " ", h("b", {}, h("bdi", {}, argumentText(value)))));
  if (given.length > ARGUMENTS) parts.push(h("span", { class: "call__arg" }, `and ${given.length - ARGUMENTS} more`));
  return named ? [h("code", {}, h("bdi", {}, clip(plain(action.tool), 60))), ...parts] : parts;
}

/** @param {any} decision @param {number} refusals */
function noteParts(decision, refusals) {
  const notes = [];
  if (decision.refused) {
    notes.push(h("p", { class: "mind__note" }, h("b", {}, "Refused: "), h("bdi", {}, clip(plain(decision.refused.message), 300)),
      " ", h("small", {}, h("bdi", {}, clip(plain(decision.refused.rule), 60)), refusals > 1 ? ` · ${refusals} so far` : "")));
  }
  if (decision.fallback_reason) {
    notes.push(h("p", { class: "mind__note" }, h("b", {}, "Somebody else had to decide: "), h("bdi", {}, clip(plain(decision.fallback_reason), 300))));
  }
  if (decision.parse === "repaired") notes.push(h("p", { class: "mind__note" }, "The model’s text had to be repaired to be read."));
  return notes;
}
