// @ts-check
// The card of who decides: the thought, the call, what was refused, and where the decision came from.

import { h, keyed, replace, setAttribute, setText } from "./dom.js";
import { SOURCE_WORDS, foreignWords } from "../live/decisions.js";
import { legible } from "../live/thoughts.js";
import { clock, mountStream } from "./mind_stream.js";
import { argumentText, clip, duration, plain, plural, rewardText, said, words } from "./text.js";

const THOUGHT = 420;
const RAW = 2_000;
const ARGUMENTS = 12;

/** @typedef {import("../live/thoughts.js").Forming} Forming */

/** @param {HTMLElement} card */
export function mountMind(card) {
  const list = h("div", { class: "mind" });
  const rewards = h("p", { class: "mind__total", hidden: true });
  card.append(h("header", { class: "card__head" }, h("h2", {}, "Who decides, and why")), list, rewards);
  /** @type {Map<string, ReturnType<typeof seat>>} */
  const seats = new Map();
  /** @type {unknown[]} */
  let drawn = [];

  return {
    /** @param {Record<string, any>} state @param {{names: Record<string, string>, argument: Argument, since: number, thinking: string | null, forming: Forming | null}} view */
    update(state, view) {
      const reward = rewardText(state.episode?.total_reward);
      const seen = [reward, state.decisions, state.refusals, state.usage, state.episode?.seats, view.since, view.thinking, view.forming?.actor, view.forming?.thought, view.forming?.answer, clock(view.forming), JSON.stringify(view.names)];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const agent = state.episode?.agent;
      rewards.hidden = !reward;
      setText(rewards, `Rewards so far: ${reward}`);
      const actors = Object.keys(state.episode?.seats ?? {}).sort((a, b) => Number(b === agent) - Number(a === agent));
      keyed(list, actors, (actor) => actor, (actor) => {
        const made = seat(actor !== agent);
        seats.set(actor, made);
        return made.element;
      });
      for (const actor of actors) {
        const decision = state.decisions?.[actor];
        seats.get(actor)?.update({
          name: view.names[actor] ?? words(actor), argument: view.argument,
          seat: state.episode.seats[actor] ?? {}, world: state.episode.environment,
          decision: decision?.seq < view.since ? undefined : decision,
          refusals: state.refusals?.[actor] ?? 0,
          usage: state.usage?.[actor],
          thinking: view.thinking === actor,
          forming: view.forming?.actor === actor ? view.forming : null,
        });
      }
    },
  };
}

/** One actor's part of the card. @param {boolean} other whether it is not the agent's own seat */
function seat(other) {
  const name = h("bdi");
  const label = h("a", { class: "quiet" });
  const source = h("span", { class: "mind__source" });
  const cost = h("span", { class: "mind__cost" });
  const foreign = h("span", { class: "badge badge--foreign", hidden: true });
  const inspect = h("button", { class: "more mind__inspect", type: "button", disabled: true, data: { inspect: "" } }, "Inspect");
  const thought = said("p", "mind__thought", THOUGHT);
  const caret = h("span", { class: "mind__caret", hidden: true, title: "thinking" });
  thought.element.append(caret);
  const stream = mountStream();
  const call = h("p", { class: "call" });
  const notes = h("div");
  const others = h("p", { class: "mind__others" });
  const total = h("p", { class: "mind__total", hidden: true });
  const raw = said("pre", "", RAW);
  const rawBox = h("details", { class: "mind__raw", hidden: true }, h("summary", {}, "What the model wrote"), raw.element);
  const element = h("div", { class: other ? "mind__seat mind__seat--other" : "mind__seat" },
    h("div", { class: "mind__who" }, h("h3", {}, name), cost), h("p", { class: "mind__by" }, source, " ", label, " ", inspect, " ", foreign),
    stream.element, notes, thought.element, call, other ? null : others, rawBox, total);
  /** @type {unknown} */
  let shown = null;

  /** @param {{name: string, argument: Argument, seat: any, world: string, decision: any, refusals: number, usage: any, thinking: boolean, forming: Forming | null}} view */
  const update = (view) => {
    setText(name, clip(plain(view.name), 60));
    setAttribute(inspect, "aria-label", `Inspect the decision of ${name.textContent}`);
    setText(label, clip(who(view.seat.label, view.decision?.model), 80));
    setAttribute(label, "href", view.seat.policy && `../captains/${encodeURIComponent(view.seat.policy)}?environment=${view.world}`);
    caret.hidden = !view.thinking || view.forming !== null;
    for (const part of [thought.element, notes, others]) part.hidden = view.forming !== null;
    rawBox.hidden = view.forming !== null || !view.decision?.raw_text;
    stream.show(view.forming);
    total.hidden = !view.usage;
    setText(total, totalText(view.usage));
    element.classList.toggle("mind__seat--forming", view.forming !== null);
    inspect.disabled = foreign.hidden = true;
    if (view.forming) {
      shown = undefined;
      setText(source, SOURCE_WORDS[view.seat.source] ?? view.seat.source ?? "");
      setAttribute(source, "data-source", view.seat.source ?? "");
      setText(cost, clock(view.forming));
      return replace(call, ...formingCall(view.forming, view.argument));
    }
    const words = view.decision ? foreignWords(view.decision, view.seat.source) : "";
    foreign.hidden = words === "";
    setText(foreign, words);
    inspect.disabled = !view.decision;
    setAttribute(inspect, "data-inspect", view.decision?.seq);
    if (shown === view.decision && shown !== null) return;
    shown = view.decision ?? null;
    const decision = view.decision ?? {};
    const kind = decision.source ?? view.seat.source ?? "";
    setText(source, SOURCE_WORDS[kind] ?? kind);
    setAttribute(source, "data-source", kind);
    setText(cost, costText(decision));
    thought.show(decision.reasoning?.replace(/\n\s*\n/g, "\n") || (view.decision ? "No reason given." : "Has not decided yet."));
    thought.element.classList.toggle("mind__thought--none", !decision.reasoning);
    replace(call, ...callParts(decision.action, view.argument));
    replace(notes, ...noteParts(decision, view.refusals));
    replace(others, ...othersParts(decision));
    raw.show(decision.raw_text ?? "");
  };
  return { element, update };
}

/** A preset by the name that people know and, where it says more, the model. @param {unknown} label @param {unknown} model */
function who(label, model) {
  const [preset, asked] = [plain(label ?? ""), plain(model ?? "")];
  return asked && !preset.includes(asked) ? `${preset} · ${asked}` : preset;
}

/** @param {Forming} forming @param {Argument} argument */
function formingCall(forming, argument) {
  const { tool, given } = legible(forming.answer);
  if (!tool && !given.length) return [h("span", { class: "call__arg" }, "no call yet")];
  return callParts({ tool: tool || "…", arguments: Object.fromEntries(given) }, argument);
}

/** @param {any} decision */
function costText(decision) {
  const parts = !decision.latency_s ? [] : [duration(decision.latency_s)];
  const tokens = (decision.tokens_in ?? 0) + (decision.tokens_out ?? 0);
  if (tokens) parts.push(`${decision.tokens_estimated ? "about " : ""}${plural(tokens, "token")}`);
  if (decision.cost > 0) parts.push(money(decision.cost));
  return parts.join(" · ");
}

/** What a model took in the match so far. @param {any} usage */
function totalText(usage) {
  if (!usage) return "";
  const tokens = usage.tokens_in + usage.tokens_out;
  const parts = [plural(usage.decisions, "decision"), ...(tokens ? [plural(tokens, "token")] : [])];
  if (usage.cost > 0) parts.push(money(usage.cost));
  if (usage.latency_s) parts.push(`${duration(usage.latency_s / Math.max(1, usage.decisions))} each`);
  if (usage.fallbacks) parts.push(`${usage.fallbacks} made by the fallback`);
  return `This match: ${parts.join(" · ")}`;
}

/** @param {number} cost in US dollars, as the catalogue's prices are */
const money = (cost) => (cost < 0.01 ? "<US$0.01" : `US$${cost.toFixed(2)}`);

/** @typedef {(name: string, value: any) => [string, string] | undefined} Argument an argument as the world words it, with its unit */

/** A tool call, or whatever else an action holds. @param {any} action @param {Argument} [argument] */
export function callParts(action, argument) {
  if (typeof action !== "object" || action === null) return [h("span", { class: "call__arg" }, "no call yet")];
  const named = typeof action.tool === "string";
  const given = Object.entries(named ? action.arguments ?? {} : action);
  const parts = given.slice(0, ARGUMENTS).map(([key, value]) => {
    const [name, text] = argument?.(key, value) ?? [words(key), value];
    return h("span", { class: "call__arg" }, h("bdi", {}, clip(name, 40)), " ", h("b", {}, h("bdi", {}, argumentText(text))));
  });
  if (given.length > ARGUMENTS) parts.push(h("span", { class: "call__arg" }, `and ${given.length - ARGUMENTS} more`));
  return named ? [h("code", {}, h("bdi", {}, clip(words(action.tool), 60))), ...parts] : parts;
}

/** What else would have been legal. @param {any} decision */
function othersParts(decision) {
  const others = (decision.legal ?? []).filter((/** @type {string} */ tool) => tool !== decision.action?.tool);
  return others.length ? ["also legal: ", h("bdi", {}, clip(others.map(words).join(", "), 200))] : [];
}

/** @param {any} decision @param {number} refusals */
function noteParts(decision, refusals) {
  const notes = [];
  if (decision.refused) {
    notes.push(h("p", { class: "mind__note" }, h("b", {}, "Refused: "), h("bdi", {}, clip(plain(decision.refused.message), 300)),
      " ", h("small", {}, h("bdi", {}, clip(plain(decision.refused.rule), 60)), refusals > 1 ? ` · ${refusals} so far` : "")));
  }
  if (decision.fallback_reason) {
    notes.push(h("p", { class: "mind__note" }, h("b", {}, "The fallback had to decide: "), h("bdi", {}, clip(plain(decision.fallback_reason), 300))));
  }
  if (decision.parse === "repaired") notes.push(h("p", { class: "mind__note" }, "The model’s text had to be repaired."));
  return notes;
}
