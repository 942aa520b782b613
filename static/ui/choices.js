// @ts-check
// Selects of a form, such as the captains of a catalogue.

import { h } from "./dom.js";
import { clip, plain } from "./text.js";

/** @typedef {{value: string, label: string, chosen?: boolean, missing?: string | null}} Choice */

/** @param {string} field @param {string} label @param {Choice[]} choices */
export function blank(field, label, choices) {
  return h("select", { id: field, name: field, "aria-label": label, autocomplete: "off" }, ...choices.map((choice) =>
    h("option", { value: choice.value, selected: choice.chosen, disabled: Boolean(choice.missing) },
      clip(plain(choice.label), 60) + (choice.missing ? ` (${clip(plain(choice.missing), 80)})` : ""))));
}

/** @param {any[]} presets @param {string | null} chosen @returns {Choice[]} */
export function presetOptions(presets, chosen) {
  return presets.map((preset) => ({
    value: preset.name, label: preset.label, chosen: preset.name === chosen,
    missing: preset.available === false ? preset.missing || "not available here" : null,
  }));
}
