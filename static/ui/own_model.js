// @ts-check
// The visitor's own model in a seat: at Hugging Face by a sign-in, or at a named endpoint.

import { call, get } from "../live/api.js";
import { h, replace } from "./dom.js";
import { clip, plain } from "./text.js";

const HUB = "hf:";
const OWN = "own:";
/** Marks the address after a sign-in: choose the model next. */
const CHOOSE = "own-model";
const SEATS = { captain_preset: "captain", opponent_choice: "opponent" };

/** @typedef {{sign_in_url: string | null, promise: string, user: string | null, expired: boolean, own_endpoints: boolean}} Visitor */
/** @typedef {Record<string, HTMLInputElement | HTMLSelectElement>} Controls */

/**
 * Whether this page is shown in a frame of another site: sign-ins leave it for a tab of the server's own, since
 * browsers keep the cookies of such frames apart, or none at all.
 */
const framed = () => window.top !== window.self;

/** @param {string} root */
export function mountOwnModel(root) {
  const account = h("div", { class: "own__account", hidden: true });
  const rows = h("div", { class: "own__rows" });
  const list = h("datalist", { id: "own-models" });
  const element = h("div", { class: "own", hidden: true }, account, rows, list);
  /** @type {Visitor | null} */ let visitor = null;
  /** @type {Controls} */ let seats = {};
  /** @type {Record<string, Record<string, any>>} input by seat */
  const filled = {};
  let listed = false;

  const draw = () => {
    if (!visitor) return;
    account.hidden = !visitor.sign_in_url;
    if (visitor.sign_in_url) replace(account, ...(visitor.user ? signedIn(visitor.user) : signedOut(visitor, visitor.sign_in_url)));
    for (const [field, control] of Object.entries(seats)) offer(/** @type {HTMLSelectElement} */ (control), field);
    drawRows();
  };

  const signedOut = (/** @type {Visitor} */ { promise, expired }, /** @type {string} */ url) => {
    const address = new URL(url);
    address.searchParams.set("next", `/?with=${CHOOSE}#start`);
    const apart = framed() ? { target: "_blank", rel: "noopener" } : {};
    return [
      expired ? h("p", { class: "own__over", role: "status" }, h("b", {}, "Your Hugging Face sign-in expired; sign in again to play with your own model.")) : null,
      h("a", { class: "button own__sign-in", href: address.href, ...apart }, "Sign in with Hugging Face"),
      h("p", { class: "quiet" }, `To play with any chat model on your own quota. ${promise}`, framed() ? " It opens in a new tab, and you continue there: a page inside another site cannot keep a sign-in." : ""),
    ];
  };

  const signedIn = (/** @type {string} */ user) => {
    const out = h("button", { class: "button", type: "button", on: { click: async () => { await call(root, "custom/sign_out", {}); await load(); } } }, "Sign out");
    return [h("p", {}, "Signed in with Hugging Face as ", h("b", {}, h("bdi", {}, clip(plain(user), 60))), ". Choose ", h("i", {}, "my model"), " for a seat; your quota pays for it."), out];
  };

  /** Add the visitor's models to a seat's choices, and remove those no longer available. @param {HTMLSelectElement} control @param {string} field */
  const offer = (control, field) => {
    const known = { [HUB]: [visitor?.user, "my model at Hugging Face"], [OWN]: [visitor?.own_endpoints, "my own endpoint"] };
    for (const [value, [here, label]] of Object.entries(known)) {
      const option = [...control.options].find((one) => one.value === value);
      if (here && !option) control.append(h("option", { value }, label));
      if (!here && option) option.remove();
    }
    control.name = field;
  };

  const drawRows = () => {
    const shown = Object.entries(seats).filter(([, control]) => control.value === HUB || control.value === OWN);
    if (shown.some(([, control]) => control.value === HUB)) void listModels();
    replace(rows, ...shown.map(([field, control]) => row(field, control.value)));
    element.hidden = account.hidden && shown.length === 0;
  };

  const row = (/** @type {string} */ field, /** @type {string} */ kind) => {
    const seat = SEATS[/** @type {"captain_preset"} */ (field)];
    const values = (filled[field] ??= { style: "json" });
    const input = (/** @type {string} */ name, /** @type {string} */ label, /** @type {Record<string, any>} */ more) => {
      const control = h("input", { class: "input", id: `own-${seat}-${name}`, autocomplete: "off", spellcheck: "false", value: values[name] ?? "", ...more });
      control.addEventListener("input", () => { values[name] = control.value.trim(); });
      return h("div", { class: "field" }, h("label", { for: control.id }, label), control);
    };
    if (kind === HUB) return h("div", { class: "own__row" }, input("hub", `Model of the ${seat}`, { list: list.id, placeholder: "owner/model; type to search" }));
    const style = h("select", { class: "input", id: `own-${seat}-style`, autocomplete: "off" }, ...["json", "tools", "xml"].map((one) => h("option", { value: one, selected: one === values.style }, one)));
    style.addEventListener("input", () => { values.style = style.value; });
    return h("div", { class: "own__row" },
      input("base_url", `Endpoint of the ${seat}`, { inputmode: "url", placeholder: "http://localhost:11434/v1" }),
      input("model", "Model name", { placeholder: "as the endpoint calls it" }),
      input("api_key", "Key, if it needs one", { type: "password", placeholder: "kept for this match only" }),
      h("div", { class: "field" }, h("label", { for: style.id }, "Call format"), style));
  };

  const listModels = async () => {
    if (listed) return;
    listed = true;
    const answer = await get(root, "custom/models");
    const models = answer.ok ? answer.body.models : [];
    replace(list, ...models.map((/** @type {any} */ one) => h("option", { value: plain(one.id) }, one.tools ? "calls tools" : "")));
    listed = models.length > 0;
    const missing = rows.querySelector(".own__unlisted");
    if (models.length) missing?.remove();
    else if (!missing) rows.append(h("p", { class: "own__unlisted quiet", role: "status" }, "The list of models is unavailable. Type a model’s name, such as google/gemma-3-27b-it."));
  };

  /** Load who is signed in and which models they may bring. */
  async function load() {
    const answer = await get(root, "custom/visitor");
    if (!answer.ok) return;
    visitor = answer.body;
    draw();
    const address = new URL(location.href);
    if (address.searchParams.get("with") !== CHOOSE || !visitor?.user || !seats.captain_preset) return;
    address.searchParams.delete("with");
    history.replaceState(null, "", address);
    seats.captain_preset.value = HUB;
    seats.captain_preset.dispatchEvent(new Event("input", { bubbles: true }));
  }

  return {
    element,
    load,
    /** Offer the visitor's own model in the seats of these controls. @param {Controls} controls */
    attach(controls) {
      seats = Object.fromEntries(Object.entries(controls).filter(([field]) => field in SEATS));
      for (const control of Object.values(seats)) control.addEventListener("input", drawRows);
      draw();
    },
    /** The request with the visitor's model in place of the choice. @param {Record<string, any>} fields */
    into(fields) {
      return broughtInto(fields, filled);
    },
    /** The control of a field that the server refused; `null` where it is none of these. @param {string} field */
    controlOf(field) {
      const [seat, part] = field.split(".");
      const name = { captain_preset: "captain", opponent_choice: "opponent", captain_endpoint: "captain", opponent_endpoint: "opponent" }[seat];
      return document.getElementById(`own-${name}-${part ?? "hub"}`);
    },
  };
}

/**
 * @param {Record<string, any>} fields of a start @param {Record<string, Record<string, any>>} filled by seat's field
 * @returns {Record<string, any>}
 */
export function broughtInto(fields, filled) {
  const brought = { ...fields };
  for (const [field, endpoint] of [["captain_preset", "captain_endpoint"], ["opponent_choice", "opponent_endpoint"]]) {
    const values = filled[field] ?? {};
    if (brought[field] === HUB) brought[field] = `${HUB}${values.hub ?? ""}`;
    if (brought[field] !== OWN) continue;
    delete brought[field];
    brought[endpoint] = { base_url: values.base_url ?? "", model: values.model ?? "", style: values.style ?? "json", ...(values.api_key ? { api_key: values.api_key } : {}) };
  }
  return brought;
}
