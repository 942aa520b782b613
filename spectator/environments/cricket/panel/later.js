// @ts-check
// A card whose content is fetched once it comes near the window.

/** A card so near the window is as good as in view. */
const NEAR = "50% 0px";

/**
 * @param {any} ctx
 * @param {{look: string, name: string, title: string, note: string, load: (body: Element) => Promise<{update(world: any): void}>}} card
 *   its class and name; `load` fetches and mounts the content
 */
export function mountLater(ctx, { look, name, title, note, load }) {
  const { h, replace } = ctx.ui;
  const body = h("div", { class: `${name}__body` });
  const element = h("section", { class: `card ${look}`, hidden: true, "aria-label": title },
    h("header", { class: "card__head" }, h("h2", {}, title), h("span", { class: "quiet" }, note)), body);
  /** @type {any} */ let newest = {};
  /** @type {{update(world: any): void} | null} */ let content = null;
  let near = false;
  let asked = false;

  const observer = new IntersectionObserver((entries) => {
    near = entries.at(-1)?.isIntersecting ?? false;
    if (near) void show();
  }, { rootMargin: NEAR });
  observer.observe(element);

  async function show() {
    if (!asked) {
      asked = true;
      try {
        content = await load(body);
      } catch {
        asked = false;
        return replace(body, h("p", { class: "quiet" }, "This could not be loaded; it will be tried again when you come back."));
      }
    }
    content?.update(newest);
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
