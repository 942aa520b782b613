// @ts-check
// The card of captains' plans and play, over by over; its table is loaded near the viewport.

/** Distance from the viewport at which the table is loaded. */
const NEAR = "50% 0px";

const KEPT = new Set(["cricket.plan_changed", "cricket.over_started", "cricket.ball_bowled"]);

/** The note that the panel keeps of an event for this card; null for most events. @param {{type: string, data: any}} event @returns {{deed: any} | null} */
export const deedOf = ({ type, data }) => (KEPT.has(type) ? { deed: data } : null);

/** @param {any} ctx */
export function mountDeeds(ctx) {
  const { h, replace } = ctx.ui;
  const body = h("div", { class: "deeds__body" });
  const element = h("section", { class: "card deeds with-minds", hidden: true, "aria-label": "Plans and play" },
    h("header", { class: "card__head" }, h("h2", {}, "Plans and play"), h("span", { class: "quiet" }, "each captain’s plan, what it did, and the result")), body);
  /** @type {any} */ let newest = {};
  /** @type {{update(world: any): void} | null} */ let table = null;
  let near = false;
  let asked = false;
  /** Whether every event is loaded; the first ones hold the match plans. */
  let known = false;

  const observer = new IntersectionObserver((entries) => {
    near = entries.at(-1)?.isIntersecting ?? false;
    if (near) void show();
  }, { rootMargin: NEAR });
  observer.observe(element);

  async function show() {
    if (!asked) {
      asked = true;
      try {
        const { mountDeedsTable } = await import("./deeds_table.js");
        table = mountDeedsTable(body, ctx);
      } catch {
        asked = false;
        return replace(body, h("p", { class: "quiet" }, "Loading failed; scroll away and back to try again."));
      }
      await ctx.whole();
      known = true;
    }
    if (known) table?.update(newest);
  }

  return {
    element,
    /** @param {any} world */
    update(world) {
      newest = world;
      element.hidden = !world.over;
      if (near) void show();
    },
    destroy: () => observer.disconnect(),
  };
}
