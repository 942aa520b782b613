// @ts-check
// The sentence that starts an episode.

import { call, get, rememberToken } from "../live/api.js";
import { takeStarted } from "../live/seats.js";
import { blank, presetOptions } from "./choices.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { optionControl, readControl } from "./form_parts.js";
import { mountOwnModel } from "./own_model.js";
import { showRefusal } from "./refusal.js";
import { clip, plain, words } from "./text.js";
import { waitForSlot } from "./waiting.js";

const WAIT = "Start mine when a slot is free";
const PACES = { broadcast: "broadcast", fast: "a fast", max: "the fastest" };

/** @param {HTMLFormElement} form @param {string} root @param {(catalog: any) => void} onCatalog told what there is, once it is known */
export function mountStartForm(form, root, onCatalog) {
  let broken = false;
  /** @type {AbortController | null} gives up waiting for a slot */
  let waiting = null;
  /** @type {any} */
  let catalog = null;
  /** @type {Record<string, HTMLInputElement | HTMLSelectElement>} by field of the request */
  let controls = {};
  const own = mountOwnModel(root);
  const sentence = h("p", { class: "start__sentence" });
  const more = h("details", { class: "start__more", hidden: true }, h("summary", {}, "More choices"), h("div", { class: "start__options" }));
  const about = h("p", { class: "start__about" });
  const go = h("button", { class: "button button--go" }, "Start the match");
  const wrong = h("div", { class: "notice notice--bad start__wrong", role: "alert", hidden: true });

  const compose = (/** @type {string} */ name) => {
    const world = catalog.environments.find((/** @type {any} */ one) => one.name === name) ?? catalog.environments[0];
    const scalars = Object.entries(world.options?.properties ?? {}).map(([key, schema]) => optionControl(key, schema, world.options)).filter((one) => one !== null);
    for (const one of scalars) one.control.dataset.usual = one.control.value;
    const main = scalars.find((one) => one.kind === "integer");
    const pick = (/** @type {string} */ field, /** @type {string} */ label, /** @type {any[]} */ options) => (controls[field] = blank(field, label, options));
    controls = {};
    const seed = h("input", { id: "seed", type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "random", "aria-label": "Seed; empty for a random one" });
    controls.environment = pick("environment", "World", catalog.environments.map((/** @type {any} */ one) => ({ value: one.name, label: one.title, chosen: one === world })));
    controls.environment.addEventListener("change", () => compose(controls.environment.value));
    const parts = ["Play ", slot(controls.environment), " with ", slot(pick("captain_preset", "Captain", presetOptions(world.captains, world.suggested_captain)))];
    if (world.opponents.length) parts.push(" against ", slot(pick("opponent_choice", "Opponent", presetOptions(world.opponents, world.suggested_opponent))));
    if (main) parts.push(`, ${words(main.name)} `, slot((controls[`options.${main.name}`] = main.control)));
    parts.push(", at ", slot(pick("pace", "Pace", catalog.paces.map((/** @type {string} */ pace) => ({ value: pace, label: PACES[/** @type {"max"} */ (pace)] ?? pace })))), " pace");
    if (world.packs.length > 1) parts.push(", from the pack ", slot(pick("eval_pack_id", "Evaluation pack", world.packs.map((/** @type {any} */ pack) => ({ value: pack.name, label: words(pack.name) })))));
    controls.seed = seed;
    parts.push(", seed ", h("span", { class: "blank blank--wide" }, seed), ".");
    replace(sentence, ...withItsMark(parts));
    const rest = scalars.filter((one) => one !== main);
    for (const one of rest) controls[`options.${one.name}`] = one.control;
    replace(more.lastElementChild, ...rest.map((one) => h("div", { class: "field" }, h("label", { for: one.control.id }, words(one.name)), one.control, h("small", {}, one.about))));
    more.hidden = rest.length === 0;
    for (const control of Object.values(controls)) control.addEventListener("input", () => { clearWrong(); describe(world); });
    own.attach(controls);
    describe(world);
  };

  const describe = (/** @type {any} */ world) => {
    const chosen = world.captains.find((/** @type {any} */ one) => one.name === controls.captain_preset.value);
    const pack = world.packs.find((/** @type {any} */ one) => one.name === controls.eval_pack_id?.value);
    setText(about, [world.summary, chosen && `${chosen.label}: ${chosen.summary}`, pack?.summary].filter(Boolean).map((text) => clip(plain(text), 260)).join(" "));
    for (const [name, value] of Object.entries(pack?.options ?? {})) if (controls[`options.${name}`]) setUsual(controls[`options.${name}`], String(value));
    for (const control of Object.values(controls)) fit(control);
  };

  const clearWrong = () => {
    wrong.hidden = true;
    waiting?.abort();
    waiting = null;
    for (const control of Object.values(controls)) control.removeAttribute("aria-invalid");
  };

  const showWrong = (/** @type {import("../live/api.js").Answer} */ answer) => {
    showRefusal(wrong, answer, root, { again: () => form.requestSubmit(), more: answer.status === 409 ? [waitRow()] : [] });
    let first = true;
    for (const [index, { field }] of answer.wrong.entries()) {
      const control = own.controlOf(field) ?? controls[field] ?? controls[`options.${field}`];
      control?.setAttribute("aria-invalid", "true");
      if (control?.closest("details")) more.open = true;
      const label = /** @type {any} */ (control)?.labels?.[0]?.textContent;
      if (label) setText(wrong.querySelectorAll("li > code")[index], label);
      if (first) control?.focus();
      first = false;
    }
  };

  const waitRow = () => {
    const wait = h("button", { class: "button", type: "button" }, WAIT);
    const place = h("span", { role: "status" });
    wait.addEventListener("click", async () => {
      const fields = own.into(requestFields(controls));
      setText(wait, waiting ? WAIT : "Stop waiting");
      setText(place, waiting ? "" : "Waiting for a slot.");
      if (waiting) {
        waiting.abort();
        waiting = null;
        return;
      }
      const mine = waiting = new AbortController();
      const answer = await waitForSlot(root, fields, (text) => setText(place, text), mine.signal);
      if (answer && !started(answer)) showWrong(answer);
    });
    return h("div", { class: "dialog__row" }, wait, place);
  };

  const started = (/** @type {import("../live/api.js").Answer} */ answer) => openStarted(answer, root);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (broken) return;
    clearWrong();
    go.disabled = true;
    setText(go, "Starting…");
    const answer = await call(root, "custom/start_episode", own.into(requestFields(controls)));
    if (started(answer)) return;
    go.disabled = false;
    setText(go, "Start the match");
    showWrong(answer);
  });
  addEventListener("pageshow", () => { go.disabled = false; setText(go, "Start the match"); });

  return {
    failed: () => broken,
    async load() {
      const answer = await get(root, "custom/catalog");
      broken = !answer.ok;
      if (broken) return replace(form, h("p", {}, h("b", {}, "The catalogue could not be loaded. "), answer.message, " This page keeps trying."));
      catalog = answer.body;
      onCatalog(catalog);
      replace(form, sentence, own.element, more, h("div", { class: "start__foot" }, go, about), wrong);
      compose(catalog.default_environment);
      await own.load();
    },
  };
}

/** Go to the started episode; returns whether there is one. @param {import("../live/api.js").Answer} answer @param {string} root */
export function openStarted(answer, root) {
  if (answer.ok) takeStarted(answer.body);
  if (answer.ok) location.assign(new URL(`watch/${encodeURIComponent(answer.body.episode_id)}`, root));
  return answer.ok;
}

/** @param {Element} control */
const slot = (control) => h("span", { class: control instanceof HTMLSelectElement ? "blank blank--choice" : "blank" }, control);

/** Keeps the mark after a blank on its line. @param {(string | Element)[]} parts */
const withItsMark = (parts) => parts.map((part, place) => {
  if (typeof part === "string") return typeof parts[place - 1] === "object" ? part.replace(/^[,.]/, "") : part;
  const next = parts[place + 1];
  return h("span", { class: "start__kept" }, part, typeof next === "string" && /^[,.]/.test(next) ? next[0] : null);
});

/** Tell the styles what a blank shows, so that it gets that width. @param {HTMLInputElement | HTMLSelectElement} control */
function fit(control) {
  const place = control.closest(".blank");
  const text = control instanceof HTMLSelectElement ? control.selectedOptions[0]?.text : control.value || control.placeholder;
  if (place) setAttribute(place, "data-shown", text ?? "");
}

/** Show the default of an option. @param {HTMLInputElement | HTMLSelectElement} control @param {string} value */
function setUsual(control, value) {
  control.value = value;
  control.dataset.usual = value;
}

/**
 * The chosen fields; unchanged options are omitted, so that the server's default for the pace holds.
 * @param {Record<string, HTMLInputElement | HTMLSelectElement>} controls
 */
function requestFields(controls) {
  /** @type {Record<string, any>} */
  const fields = { options: {} };
  for (const [field, control] of Object.entries(controls)) {
    const value = readControl(control);
    if (value === undefined || control.value === control.dataset.usual) continue;
    if (field.startsWith("options.")) fields.options[field.slice(8)] = value;
    else fields[field] = value;
  }
  return fields;
}
