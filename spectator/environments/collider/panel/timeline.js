// @ts-check
// The analysis as a timeline: every step in order, with the three that must come in order marked: freeze, unblind, claim.

/** @type {Record<string, string>} */
const MARKS = {
  campaign_opened: "start", beam_configured: "beam", trigger_set: "trigger", luminosity_allocated: "plan", run_collected: "run", detector_calibrated: "scale", channel_selected: "channel",
  selection_optimised: "cut", spectrum_built: "mass", background_estimated: "background", selection_frozen: "freeze", unblinded: "unblind", mass_scanned: "scan", significance_estimated: "sigma",
  resonance_fitted: "fit", angle_measured: "spin", cross_checked: "check", theory_reviewed: "theory", limit_set: "limit",
  claim_made: "claim", rule_broken: "rule", campaign_graded: "verdict",
};
const ORDER = /** @type {const} */ ([["selection_frozen", "frozen"], ["unblinded", "unblinded"], ["claim_made", "claimed"]]);

/** @param {any} ctx */
export function mountTimeline({ ui: { h, keyed, setText, replace } }) {
  const list = h("ol", { class: "story", tabindex: "0", "aria-label": "The story so far" });
  const order = h("p", { class: "story__order" });
  const element = h("section", { class: "card timeline", "aria-label": "Analysis, step by step" }, h("header", { class: "card__head" }, h("h2", {}, "Analysis"), order), list);
  /** @type {unknown} */ let drawn = null;
  return {
    element,
    /** @param {any} world */
    update(world) {
      if (drawn === world.timeline) return;
      drawn = world.timeline;
      const steps = Object.entries(world.timeline ?? {}).sort(([a], [b]) => b.localeCompare(a));
      replace(order, ...ORDER.map(([type, word]) => h("span", { class: steps.some(([, step]) => step.type === type) ? "story__done is-on" : "story__done" }, word)));
      keyed(list, steps, ([key]) => key, ([, step]) => h("li", { class: `story__step story__step--${step.type}` }, h("span", { class: "story__mark" }, MARKS[step.type] ?? step.type), h("span", {}, step.text), h("span", { class: "story__days quiet" }, `${Math.round(step.days)} d`)),
        (one, [, step]) => setText(one.children[1], step.text));
    },
  };
}
