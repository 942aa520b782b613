// @ts-check
// The controls of a form for a world's own options, made from their JSON schema.

import { h } from "./dom.js";
import { clip, plain } from "./text.js";

/** @typedef {{name: string, kind: string, control: any, about: string}} OptionControl */

/**
 * A control for one option; `null` for options that are not a single value.
 * @param {string} name @param {any} schema @param {any} whole the schema that `$ref` refers to
 * @returns {OptionControl | null}
 */
export function optionControl(name, schema, whole) {
  const kind = scalarKind(schema, whole);
  if (kind === null) return null;
  const id = `option-${name}`;
  const about = clip(plain(kind.schema.description ?? schema.description ?? ""), 160);
  const value = schema.default ?? kind.schema.default;
  const common = { id, class: "input", title: about || null, "aria-label": name.replaceAll("_", " "), autocomplete: "off", "data-kind": kind.name, "data-optional": kind.optional };
  if (kind.name === "choice" || kind.name === "boolean") {
    const values = kind.name === "boolean" ? [true, false] : kind.schema.enum;
    const control = h("select", common, kind.optional ? h("option", { value: "" }, "any") : null, ...values.map((/** @type {any} */ one) =>
      h("option", { value: String(one), selected: one === value }, one === true ? "yes" : one === false ? "no" : String(one).replaceAll("_", " "))));
    return { name, kind: kind.name, control, about };
  }
  const numeric = kind.name === "integer" || kind.name === "number";
  const control = h("input", { ...common, type: numeric ? "number" : "text", inputmode: numeric ? "decimal" : null, step: kind.name === "integer" ? "1" : "any",
    min: kind.schema.minimum, max: kind.schema.maximum, maxlength: kind.schema.maxLength, value: value ?? "", placeholder: kind.optional ? "any" : null });
  return { name, kind: kind.name, control, about };
}

/**
 * What kind of single value a schema describes.
 * @param {any} schema @param {any} whole
 * @returns {{name: "integer" | "number" | "string" | "boolean" | "choice", schema: any, optional: boolean} | null}
 */
export function scalarKind(schema, whole) {
  if (typeof schema?.$ref === "string") return scalarKind(whole.$defs?.[schema.$ref.split("/").at(-1) ?? ""], whole);
  if (Array.isArray(schema?.anyOf)) {
    const rest = schema.anyOf.filter((/** @type {any} */ one) => one.type !== "null");
    const inner = rest.length === 1 ? scalarKind(rest[0], whole) : null;
    return inner && { ...inner, optional: inner.optional || rest.length < schema.anyOf.length };
  }
  if (schema && "const" in schema) return null;
  if (Array.isArray(schema?.enum)) return { name: "choice", schema, optional: false };
  if (["integer", "number", "string", "boolean"].includes(schema?.type)) return { name: schema.type, schema, optional: false };
  return null;
}

/**
 * What a control holds, as the server wants it; `undefined` to leave the field out. What is not a number stays text,
 * so that the server names the field and its rule.
 * @param {HTMLInputElement | HTMLSelectElement} control
 */
export function readControl(control) {
  const text = control.value.trim();
  const { kind } = control.dataset;
  if (text === "" && (control.id === "seed" || control.dataset.optional !== undefined)) return undefined;
  if (kind === "boolean") return text === "true";
  const isNumber = (kind === "integer" || kind === "number" || control.id === "seed") && text !== "" && Number.isFinite(Number(text));
  return isNumber ? Number(text) : text;
}
