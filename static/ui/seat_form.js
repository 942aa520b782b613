// @ts-check
// The form of one decision: the legal actions, and the arguments of the chosen one by their JSON schema.

import { h, replace, setAttribute, setText } from "./dom.js";
import { optionControl, readControl } from "./form_parts.js";
import { clip, plain, words } from "./text.js";

const LONG_TEXT = 200;
const TOOL = "seat-tool";

/** @typedef {{tool: string, arguments: any}} LegalCall */
/** @typedef {{name: string, control: any, problem: HTMLElement, read: () => any}} Argument */

/**
 * A control for one argument of any schema.
 * @param {string} name @param {any} schema @param {any} whole @param {boolean} required
 * @returns {Argument & {field: HTMLElement}}
 */
export function argumentField(name, schema, whole, required) {
  const optional = !required && schema.default === undefined;
  const scalar = optionControl(name, optional ? { anyOf: [schema, { type: "null" }], description: schema.description } : schema, whole);
  const isLong = scalar?.kind === "string" && (schema.maxLength ?? 0) >= LONG_TEXT;
  const control = scalar && !isLong ? scalar.control : h("textarea", { class: "input seat__text", rows: isLong ? 2 : 3, maxlength: isLong ? schema.maxLength : null, autocomplete: "off" }, isLong ? schema.default ?? "" : "");
  const id = `seat-${name}`;
  const problem = h("small", { class: "seat__wrong", id: `${id}-wrong`, hidden: true });
  for (const [key, value] of Object.entries({ id, "aria-label": null, title: null, "aria-describedby": `${id}-wrong`, "data-optional": optional })) setAttribute(control, key, value);
  if (control.tagName === "SELECT" && optional) setText(control.options[0], "default");
  if (control.tagName === "INPUT" && optional) setAttribute(control, "placeholder", "default");
  const list = !scalar && (schema.type === "array" || Array.isArray(schema.default));
  const names = list && schema.items?.type === "string";
  const about = clip(plain(schema.description ?? ""), 200) + (scalar ? "" : names ? ", comma-separated names." : ", as JSON.");
  return {
    name, control, problem,
    read: () => (scalar && !isLong ? readControl(control) : readLong(control.value, isLong, names, required)),
    field: h("div", { class: "field seat__field" }, h("label", { for: id }, words(name)), control, h("small", {}, rangeOf(schema), " ", about), problem),
  };
}

/** @param {any} schema */
function rangeOf(schema) {
  if (typeof schema.minimum === "number" && typeof schema.maximum === "number") return `${schema.minimum} to ${schema.maximum}.`;
  return "";
}

/** @param {string} text @param {boolean} isText @param {boolean} names @param {boolean} required */
function readLong(text, isText, names, required) {
  const given = text.trim();
  if (given === "" && !(isText && required)) return undefined;
  if (isText) return given;
  if (names && !given.startsWith("[")) return given.split(",").map((one) => one.trim()).filter(Boolean);
  try { return JSON.parse(given); } catch { return given; }
}

/**
 * The form; `onSend` gets the action.
 * @param {{onSend: (action: {tool: string, arguments: object}, reason: string) => void}} wiring
 */
export function makeSeatForm({ onSend }) {
  const tools = h("div", { class: "seat__tools", role: "radiogroup", "aria-label": "Action" });
  const about = h("p", { class: "seat__about" });
  const fields = h("div", { class: "seat__fields" });
  const reason = h("input", { class: "input", id: "seat-reason", type: "text", maxlength: 1000, autocomplete: "off", placeholder: "shown to everyone who watches" });
  const go = h("button", { class: "button button--go seat__go" }, "Send");
  const wrong = h("p", { class: "notice notice--bad", role: "alert", hidden: true });
  const element = h("form", { class: "seat__form", novalidate: true }, tools, about, fields,
    h("div", { class: "seat__foot" }, h("div", { class: "field seat__reason" }, h("label", { for: "seat-reason" }, "Why"), reason), go), wrong);
  /** @type {LegalCall[]} */ let legal = [];
  /** @type {(Argument & {field: HTMLElement})[]} */ let shown = [];
  let chosen = "";

  const choose = (/** @type {string} */ tool, /** @type {Record<string, any>} */ values = {}) => {
    const call = legal.find((one) => one.tool === tool) ?? legal[0];
    chosen = call.tool;
    const schema = call.arguments ?? {};
    const radio = /** @type {HTMLInputElement | undefined} */ (Array.from(tools.querySelectorAll("input")).find((one) => one.value === chosen));
    if (radio) radio.checked = true;
    shown = Object.entries(schema.properties ?? {}).map(([name, property]) =>
      argumentField(name, property, schema, (schema.required ?? []).includes(name)));
    for (const one of shown) if (values[one.name] !== undefined) one.control.value = typeof values[one.name] === "object" ? JSON.stringify(values[one.name]) : String(values[one.name]);
    setText(about, clip(plain(schema.description ?? ""), 300));
    replace(fields, ...shown.map((one) => one.field));
    const label = clip(words(chosen), 40);
    setText(go, label.charAt(0).toUpperCase() + label.slice(1));
    clear();
  };
  const clear = () => {
    wrong.hidden = true;
    for (const one of shown) {
      one.control.removeAttribute("aria-invalid");
      one.problem.hidden = true;
    }
  };
  element.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    if (go.disabled) return;
    clear();
    const read = shown.map((one) => [one.name, one.read()]).filter(([, value]) => value !== undefined);
    onSend({ tool: chosen, arguments: Object.fromEntries(read) }, reason.value.trim());
  });
  element.addEventListener("input", (/** @type {Event} */ event) => {
    if (event.target instanceof HTMLInputElement && event.target.name === TOOL) choose(event.target.value);
    else clear();
  });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) element.requestSubmit();
  });

  return {
    element,
    /** @param {LegalCall[]} calls @param {{tool: string, arguments: any} | null} again the refused action, to correct */
    ask(calls, again) {
      legal = calls;
      replace(tools, ...calls.map((call, number) => h("label", { class: "seat__tool" },
        h("input", { type: "radio", name: TOOL, value: call.tool, autocomplete: "off" }),
        number < 9 ? h("kbd", { "aria-hidden": "true" }, number + 1) : null, h("bdi", {}, clip(words(call.tool), 40)))));
      reason.value = "";
      choose(again?.tool ?? calls[0].tool, again?.arguments);
      this.enable(true);
    },
    /** @param {boolean} on */
    enable(on) { go.disabled = !on; },
    /** Choose the action at this place, as its key says. @param {number} place */
    pick(place) {
      if (!legal[place] || go.disabled) return false;
      choose(legal[place].tool);
      (shown[0]?.control ?? go).focus();
      return true;
    },
    send() { element.requestSubmit(); },
    focus() { go.focus({ preventScroll: true }); },
    /** @param {string} message @param {{field: string, rule: string}[]} problems */
    refuse(message, problems) {
      const rest = problems.filter(({ field, rule }) => {
        const one = shown.find((argument) => field.split(/[.[]/)[2] === argument.name);
        if (!one) return true;
        one.control.setAttribute("aria-invalid", "true");
        one.problem.hidden = false;
        setText(one.problem, clip(plain(rule), 300));
        one.control.focus();
        return false;
      });
      wrong.hidden = problems.length > 0 && rest.length === 0;
      setText(wrong, clip(plain(rest.length ? rest.map(({ rule }) => rule).join("; ") : message), 400));
    },
  };
}
