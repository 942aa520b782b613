// @ts-check
// The seat that a person plays in cricket: the next ball as a draft on pictures, and one button that sends it.

import { makeChoice } from "./seat_choice.js";
import { makeDial } from "./seat_dial.js";
import { INTENTS } from "./intents.js";
import { LENGTHS, LINES, PARTS, callsOf, draftOf, draftWords, goWords, isBowling, meritOf, oddsWords, withCalls, worthWords } from "./seat_draft.js";
import { makeFieldPicker } from "./seat_field.js";
import { sceneWords, sentence, winWords } from "./seat_scene.js";

/** @typedef {import("./seat_draft.js").Draft} Draft */
/** @typedef {import("./seat_draft.js").Odds} Odds */

const SETTLE_MS = 120;
const HOW = "Figures are expected runs and the chance of a wicket on the next ball, by the model that bowls it, on an average day. What the rival plans is not known.";

/**
 * @param {{ui: any, charts: any, send: (calls: any[], reason: string) => void, weigh: (calls: any[]) => Promise<any>, say: (words: string) => void}} tools
 */
export function makeSeat(tools) {
  const { ui: { h, setText, clip, plain }, send, weigh } = tools;
  const set = (/** @type {Partial<Draft>} */ change) => put({ ...draft, ...change });
  const choice = (/** @type {any} */ looks, /** @type {(value: string) => Partial<Draft>} */ changeOf) => makeChoice(tools.ui, looks, (value) => set(changeOf(value)));
  const choices = /** @type {Record<string, ReturnType<typeof makeChoice>>} */ ({
    call: choice({ name: "call", title: "The call", look: "row" }, (call) => ({ call })),
    elect: choice({ name: "elect", title: "If the toss is won", look: "row" }, (elect) => ({ elect })),
    batter: choice({ name: "batter", title: "Who comes in", look: "list" }, (batter) => ({ batter, partner: draft.partner === batter ? draft.batter : draft.partner })),
    partner: choice({ name: "partner", title: "With", look: "list" }, (partner) => ({ partner, batter: draft.batter === partner ? draft.partner : draft.batter })),
    bowler: choice({ name: "bowler", title: "Who bowls", look: "list" }, (bowler) => ({ bowler })),
    pitch: choice({ name: "pitch", title: "Line and length: runs · wicket", look: "pitch", map: { rows: Object.keys(LENGTHS), columns: ["leg", "stumps", "outside off", "wide"] } }, (value) => { const [length, line] = value.split("|"); return { length, line }; }),
    pace: choice({ name: "pace", title: "Pace", look: "row" }, (pace) => ({ pace })),
    intent: choice({ name: "intent", title: "Intent: runs · wicket", look: "row" }, (value) => ({ intent: Number(value) })),
  });
  const dial = makeDial(tools, (shot) => set({ shot }));
  const field = makeFieldPicker(tools, { preset: (preset) => set({ preset, fielders: null }), fielders: (fielders) => set({ preset: "", fielders }) });
  const [scene, now, advice] = [h("p", { class: "duel__scene" }), h("p", { class: "duel__now", role: "status" }), h("p", { class: "duel__advice", role: "status", hidden: true })];
  const columns = [h("div", { class: "duel__column" }, ...Object.values(choices).map((one) => one.element)), h("div", { class: "duel__column" }, field.element)];
  choices.pitch.element.before(dial.element);
  const button = (/** @type {string} */ words, /** @type {() => void} */ click) => h("button", { class: "chip", type: "button", on: { click } }, words);
  const [undo, ask, over] = [button("Undo", back), button("", takeAdvice), button("", playOver)];
  const halt = h("button", { class: "button", type: "button", hidden: true, on: { click: () => { rest = null; halt.hidden = true; } } }, "Stop after this ball");
  const [word, summary] = [h("b"), h("small")];
  const go = h("button", { class: "button button--go seat__go" }, h("span", {}, word, summary));
  const reason = h("input", { class: "input", "aria-label": "Say something to the viewers", placeholder: "Say something to the viewers", maxlength: 1000, autocomplete: "off" });
  const wrong = h("p", { class: "notice notice--bad", role: "alert", hidden: true });
  const body = h("fieldset", { class: "duel__body" }, scene, h("div", { class: "duel__columns" }, ...columns), h("div", { class: "duel__foot" }, advice, now, go), h("div", { class: "duel__more" }, undo, ask, over), wrong, reason, h("p", { class: "duel__how" }, HOW));
  const element = h("form", { class: "duel", novalidate: true }, body, halt);

  /** @type {any} */ let seen = { phase: "toss" };
  /** @type {string[]} */ let legal = [];
  /** @type {Draft} */ let draft = draftOf(seen);
  /** @type {Draft[]} */ let before = [];
  /** @type {any} */ let weighed = null;
  /** A draft that is repeated until its over ends or a wicket falls. @type {{draft: Draft, when: string} | null} */ let rest = null;
  let [timer, asking, changed, kept] = [0, false, false, { phase: "", intent: 0.5, innings: 0 }];

  const parts = () => PARTS[seen.phase] ?? [];
  const calls = () => callsOf(draft, seen, legal);
  const stage = () => [seen.phase, seen.innings, seen.score?.wickets, Math.floor((seen.score?.balls ?? 0) / 6)].join();

  /** @param {Draft} next */
  function put(next) {
    before.push(draft);
    draft = next;
    wrong.hidden = true;
    draw();
    clearTimeout(timer);
    timer = setTimeout(price, SETTLE_MS);
  }

  function back() {
    draft = before.pop() ?? draft;
    advice.hidden = true;
    draw();
    void price();
  }

  /** Ask what the draft is worth, one draft at a time; the answer to an older one is dropped. */
  async function price() {
    changed = true;
    if (asking) return;
    asking = true;
    /** @type {any} */ let found = null;
    while (changed) {
      changed = false;
      found = await weigh(calls());
    }
    asking = false;
    if (!found) return;
    weighed = found.refused ? { ...weighed, now: null, ...found } : found;
    if (draft.fielders && found.field?.preset === "custom") draft = { ...draft, fielders: found.field.fielders }; // at the same places, with the names of their positions
    draw();
  }

  function takeAdvice() {
    const given = weighed?.advice;
    if (!given) return;
    put(withCalls({ ...draftOf(seen), ...(parts().includes("shot") ? { shot: "" } : {}) }, given.calls));
    advice.hidden = false;
    setText(advice, `${given.who}: ${draftWords(seen.phase, draft, [])}. ${clip(plain(given.why), 160)}`);
  }

  function playOver() {
    rest = { draft, when: stage() };
    halt.hidden = false;
    submit();
  }

  function submit() {
    if (body.disabled || weighed?.refused) return void field.refuse(weighed?.refused?.message ?? "");
    kept = { phase: seen.phase, intent: draft.intent, innings: seen.innings };
    const said = reason.value.trim();
    reason.value = "";
    send(calls(), said || sentence(draftWords(seen.phase, draft, field.placed())));
  }
  element.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); submit(); });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && event.target !== reason) { event.preventDefault(); back(); }
    if (event.key === " " && event.target instanceof HTMLInputElement && event.target.type === "radio" && event.target.checked) { event.preventDefault(); submit(); }
  });

  function draw() {
    const shown = parts();
    const options = weighed?.options ?? {};
    const merits = Object.fromEntries(Object.entries(options).map(([part, odds]) => [part, meritOf(/** @type {Record<string, Odds>} */ (odds))]));
    for (const [part, one] of Object.entries(choices)) one.update(shown.includes(part) ? optionsOf(part, options[part] ?? {}, merits[part] ?? {}) : [], chosenOf(part));
    dial.element.hidden = !shown.includes("shot");
    if (shown.includes("shot")) dial.update(draft.shot, seen.striker?.bats === "left", options.shot ?? {}, merits.shot ?? {});
    columns[1].hidden = !shown.includes("field");
    if (shown.includes("field")) field.update(seen, draft, weighed, merits.field ?? {}, legal.includes("set_field") || seen.phase === "bowling_plan");
    setText(scene, plain(sceneWords(seen)));
    setText(now, weighed?.now && (shown.includes("shot") || shown.includes("pitch")) ? `${oddsWords(weighed.now)}: ${worthWords(weighed.now.worth, weighed.unit)}.` : "");
    setText(word, goWords(seen.phase, draft, seen.choices?.overs?.length));
    setText(summary, draftWords(seen.phase, draft, shown.includes("field") ? field.placed() : []));
    undo.disabled = before.length === 0;
    ask.hidden = !weighed?.advice;
    setText(ask, `What would the ${weighed?.advice?.who ?? "Planner"} do?`);
    over.hidden = !["bowl", "bat"].includes(seen.phase);
    setText(over, seen.phase === "bowl" ? "Bowl the rest of the over" : "Bat the rest of the over");
  }

  /** @param {string} part */
  const chosenOf = (part) => (part === "pitch" ? `${draft.length}|${draft.line}` : String(draft[/** @type {"pace"} */ (part)]));

  /** @param {string} part @param {Record<string, Odds>} odds @param {Record<string, number>} merit @returns {import("./seat_choice.js").Option[]} */
  function optionsOf(part, odds, merit) {
    const option = (/** @type {string} */ value, /** @type {string} */ label, /** @type {object} */ more = {}) => ({ value, label, odds: odds[value], merit: merit[value], ...more });
    switch (part) {
      case "call": return [option("heads", "Heads"), option("tails", "Tails")];
      case "elect": return [option("field", "Field first"), option("bat", "Bat first")];
      case "bowler": return (seen.choices?.bowlers ?? []).map((/** @type {any} */ one) => option(one.name, plain(one.name), { note: one.overs === "0.0" ? one.kind : `${one.kind}, ${one.wickets} for ${one.runs} in ${one.overs}` }));
      case "batter": case "partner": return (seen.choices?.batters ?? []).map((/** @type {string} */ name) => option(name, plain(name), { note: roleOf(name) }));
      case "pace": return [option("", "usual pace"), ...["quick", "stock", "slower"].map((pace) => option(pace, pace))];
      case "intent": return Object.entries(INTENTS[isBowling(seen.phase) ? "bowling" : "batting"]).map(([level, label]) => option(level, label)).sort((a, b) => Number(a.value) - Number(b.value));
      default: return [...Object.entries(LENGTHS).flatMap(([length, words]) => Object.entries(LINES).map(([line, across]) => option(`${length}|${line}`, "", { spoken: `${words}, ${across}` }))), option("|", "the bowler’s own length and line")];
    }
  }

  const roleOf = (/** @type {string} */ name) => { const card = seen.squads?.[seen.side]?.players.find((/** @type {any} */ one) => one.name === name); return card ? `${card.bats}-handed ${card.role}` : ""; };

  return {
    element,
    /** @param {any} asked @param {any} again what was refused, if anything */
    ask(asked, again) {
      seen = asked.situation;
      legal = asked.legal_actions.map((/** @type {any} */ one) => one.tool);
      before = [];
      draft = draftOf(seen);
      if (kept.phase === seen.phase && kept.innings === seen.innings) draft.intent = kept.intent;
      if (again) draft = withCalls(draft, again);
      weighed = null;
      advice.hidden = wrong.hidden = true;
      element.dataset.phase = seen.phase;
      if (rest?.when !== stage() || again) rest = null;
      halt.hidden = rest === null;
      this.enable(true);
      if (rest) { draft = { ...draft, shot: rest.draft.shot, intent: rest.draft.intent }; draw(); return submit(); }
      draw();
      void price();
    },
    /** @param {boolean} on */
    enable(on) { body.disabled = !on; },
    /** A figure chooses the intent, or the card at its place. @param {number} index */
    pick(index) {
      const part = parts().includes("intent") ? "intent" : parts()[0] ?? "";
      const [option, one] = [optionsOf(part, {}, {})[index], choices[part]];
      if (!option || body.disabled) return false;
      one.choose(option.value);
      return true;
    },
    send: submit,
    focus() { go.focus({ preventScroll: true }); },
    /** @param {string} message @param {{rule: string}[]} problems */
    refuse(message, problems) {
      wrong.hidden = false;
      setText(wrong, clip(plain(problems.map(({ rule }) => rule).join("; ") || message), 400));
    },
    won: (/** @type {any} */ state, /** @type {string[]} */ mine) => clip(plain(winWords(state, mine)), 120),
  };
}
