// @ts-check
// The strip above everything: the phase of the campaign, the significance, and what is left of money, luminosity and days.

import { campaignWords, claimWords, figure, mainFigure, phaseWords } from "./words.js";

const GAUGES = /** @type {const} */ ([["budget_left_musd", "Money", "MUSD"], ["luminosity_left_fb", "Luminosity", "fb⁻¹"], ["days_left", "Time", "days"]]);

/** @param {HTMLElement} place @param {any} ctx */
export function mountBanner(place, { ui: { h, svg, setText } }) {
  const phase = h("span", { class: "campaign__phase" });
  const task = h("p", { class: "campaign__task" });
  const z = h("span", { class: "campaign__z" });
  const unit = h("span", { class: "campaign__unit" });
  const words = h("span", { class: "campaign__standing" });
  const gauges = GAUGES.map(([field, label, of]) => gauge(field, label, of));
  const element = h("section", { class: "campaign", "aria-label": "Campaign" },
    h("div", { class: "campaign__what" }, phase, task), h("p", { class: "campaign__found" }, z, " ", unit, words), h("div", { class: "campaign__gauges" }, ...gauges.map((one) => one.element)));
  place.append(element);

  /** @param {string} field @param {string} label @param {string} of */
  function gauge(field, label, of) {
    const value = h("b");
    const share = svg("rect", { class: "gauge__left", x: 0, y: 0, width: 100, height: 8 });
    const bar = svg("svg", { class: "gauge__bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("rect", { class: "gauge__all", x: 0, y: 0, width: 100, height: 8 }), share);
    const total = h("span", { class: "quiet" });
    return {
      element: h("p", { class: "gauge" }, h("span", { class: "gauge__label" }, label), value, total, bar),
      /** @param {any} world */
      update(world) {
        const [left, all] = [world.resources?.[field], world.totals?.[field]];
        setText(value, figure(left));
        setText(total, all === undefined ? ` ${of}` : ` of ${figure(all)} ${of} left`);
        share.setAttribute("width", String(all > 0 ? Math.max(0, Math.min(100, (100 * left) / all)) : 0));
        share.classList.toggle("is-low", all > 0 && left / all < 0.15);
      },
    };
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      const main = mainFigure(world);
      setText(phase, phaseWords(world.phase));
      setText(task, world.claim ? claimWords(world.claim) : campaignWords(world.task?.campaign ?? ""));
      task.title = task.textContent ?? "";
      setText(z, main.value);
      setText(unit, main.unit);
      setText(words, main.words);
      element.classList.toggle("campaign--discovery", main.good);
      element.classList.toggle("campaign--none", main.value === "–");
      for (const one of gauges) one.update(world);
    },
  };
}
