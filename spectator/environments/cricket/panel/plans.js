// @ts-check
// What both captains said they would do, beside what they are set to do now.

const PHASES = ["powerplay", "middle", "death"];
const KEPT = new Set(["cricket.plan_changed", "cricket.over_started", "cricket.ball_bowled"]);

/** What the panel keeps of an event for the table of plans and results; null for most. @param {{type: string, data: any}} event @returns {{deed: any} | null} */
export const deedOf = ({ type, data }) => (KEPT.has(type) ? { deed: data } : null);

/** @param {any} ctx */
export function mountPlans({ ui: { h, svg, replace, clip, plain } }) {
  const element = h("section", { class: "card plans with-minds", hidden: true, "aria-label": "Plans" });
  /** @type {unknown[]} */ let drawn = [NaN];

  /** A value from 0 to 1 as a short bar with its figure. @param {unknown} value */
  const gauge = (value) => {
    if (typeof value !== "number") return "–";
    return h("span", { class: "plans__gauge" }, svg("svg", { viewBox: "0 0 40 6", "aria-hidden": "true" },
      svg("rect", { class: "plans__ground", width: 40, height: 6, rx: 3 }), svg("rect", { class: "plans__value", width: 40 * Math.max(0, Math.min(1, value)), height: 6, rx: 3 })),
    ` ${value.toFixed(2)}`);
  };
  const line = (/** @type {string} */ name, /** @type {unknown} */ bat, /** @type {unknown} */ bowl, /** @type {string} */ look) =>
    h("tr", { class: look }, h("th", { scope: "row" }, name), h("td", {}, gauge(bat)), h("td", {}, gauge(bowl)));
  const note = (/** @type {string} */ role, /** @type {any} */ part) =>
    (part?.note ? h("p", { class: "plans__note" }, h("span", { class: "quiet" }, `${role}: `), h("bdi", {}, clip(plain(part.note), 160))) : null);

  /** @param {any} plans @param {string} name */
  const side = (plans, name) => {
    const plan = plans?.match_plan ?? {};
    return h("div", { class: "plans__side" }, h("h3", {}, h("bdi", {}, clip(plain(name), 40))),
      h("p", { class: "plans__said" }, plan.summary ? h("bdi", {}, `“${clip(plain(plan.summary), 200)}”`) : h("span", { class: "quiet" }, "has given no plan")),
      h("table", {}, h("thead", {}, h("tr", {}, ...["Phase", "Batting", "Bowling"].map((head) => h("th", { scope: "col" }, head)))),
        h("tbody", {}, ...PHASES.map((phase) => line(phase, plan[`batting_${phase}`], plan[`bowling_${phase}`], "")),
          plans?.batting || plans?.bowling ? line("set now", plans.batting?.aggression, plans.bowling?.attack, "is-on") : null)),
      note("Batting", plans?.batting), note("Bowling", plans?.bowling));
  };

  return {
    element,
    /** @param {any} world */
    update(world) {
      const seen = [world.plans, world.teams];
      if (seen.every((value, index) => value === drawn[index])) return;
      drawn = seen;
      const sides = Object.keys(world.teams ?? {}).filter((actor) => world.plans?.[actor]);
      element.hidden = sides.length === 0;
      replace(element, h("header", { class: "card__head" }, h("h2", {}, "The captains’ plans"), h("span", { class: "quiet" }, "0 careful, 1 all out")),
        h("div", { class: "plans__sides" }, ...sides.map((actor) => side(world.plans[actor], world.teams[actor]?.name ?? actor))));
    },
  };
}
