// @ts-check
// The card of what captains said and did, over by over; its table is fetched once it comes near the window.

/** A card so near the window is as good as in view. */
const NEAR = "50% 0px";

const KEPT = new Set(["cricket.plan_changed", "cricket.over_started", "cricket.ball_bowled"]);

/** What the panel keeps of an event for this; null for most. @param {{type: string, data: any}} event @returns {{deed: any} | null} */
export const deedOf = ({ type, data }) => (KEPT.has(type) ? { deed: data } : null);

/** @param {any} ctx */
export function mountDeeds(ctx) {
  const { h, replace } = ctx.ui;
  const body = h("div", { class: "deeds__body" });
  const element = h("section", { class: "card deeds with-minds", hidden: true, "aria-label": "Plans and results" },
    h("header", { class: "card__head" }, h("h2", {}, "Plans and results"), h("span", { class: "quiet" }, "what each captain planned, did and got")), body);
  /** @type {any} */ let newest = {};
  /** @type {{update(world: any): void} | null} */ let table = null;
  let near = false;
  let asked = false;
  /** Whether every event is known: the plans are in the first ones. */
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
        return replace(body, h("p", { class: "quiet" }, "This could not be loaded; it will be tried again when you come back."));
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
