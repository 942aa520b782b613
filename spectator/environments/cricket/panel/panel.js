// @ts-check
// Owns cricket's panel: the score above, the ball beside the captain's mind, field, tables and charts below.

import { mountBall } from "./ball.js";
import { mountBowlers } from "./bowlers.js";
import { mountCards } from "./cards.js";
import { mountChances } from "./chances.js";
import { mountChart } from "./chart.js";
import { mountCrease } from "./crease.js";
import { mountField } from "./field.js";
import { mountPlans } from "./plans.js";
import { mountScore } from "./score.js";
import { sections } from "./sections.js";
import { mountWheel } from "./wheel.js";
import { names } from "./words.js";

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, ctx) {
    const { h } = ctx.ui;
    const score = mountScore(ctx.banner, ctx);
    const ball = mountBall(ctx.lead, ctx);
    const field = mountField(ctx);
    const crease = mountCrease(ctx);
    const chances = mountChances(ctx);
    const chart = mountChart(ctx);
    const wheel = mountWheel(ctx);
    const bowlers = mountBowlers(ctx);
    const plans = mountPlans(ctx);
    const cards = mountCards(ctx);
    const grid = h("div", { class: "cricket" }, crease.element, chances.element, field.element, chart.element, wheel.element, bowlers.element, plans.element, cards.element);
    root.append(grid);
    const parts = ctx.parts([score, ball, crease, chances, field, chart, wheel, bowlers, plans, cards]);
    return {
      /** @param {any} state @param {any} event */
      update(state, event) {
        const awaits = (state.episode?.options?.forecast_futures ?? 0) > 0 && state.episode?.status !== "ended";
        parts.update({ ...state.world, awaits_forecast: awaits }, event !== null && !ctx.still());
      },
      destroy() {
        parts.destroy();
        for (const place of [root, ctx.banner, ctx.lead]) place.replaceChildren();
      },
    };
  },
  sections: (/** @type {any} */ state) => sections(state.world ?? {}),
  names: (/** @type {any} */ state) => names(state.world),
};
