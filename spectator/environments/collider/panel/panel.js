// @ts-check
// The collider's panel: resources above, the spectrum beside the physicist's mind, scan, timeline and data below.

import { mountAngles } from "./angles.js";
import { mountBanner } from "./banner.js";
import { mountBooks } from "./books.js";
import { mountClaim } from "./claim.js";
import { mountLimits } from "./limits.js";
import { mountScan } from "./scan.js";
import { sections } from "./sections.js";
import { mountSpectrum } from "./spectrum.js";
import { mountTimeline } from "./timeline.js";
import { argument } from "./words.js";

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, ctx) {
    const { h } = ctx.ui;
    const banner = mountBanner(ctx.banner, ctx);
    const spectrum = mountSpectrum(ctx.lead, ctx);
    const scan = mountScan(ctx);
    const timeline = mountTimeline(ctx);
    const claim = mountClaim(ctx);
    const limits = mountLimits(ctx);
    const angles = mountAngles(ctx);
    const books = mountBooks(ctx);
    root.append(h("div", { class: "collider" }, scan.element, timeline.element, claim.element, limits.element, angles.element, books.element));
    const parts = ctx.parts([banner, spectrum, claim, scan, timeline, limits, angles, books]);
    return {
      /** @param {any} state @param {any} event */
      update(state, event) {
        const ended = state.episode?.status === "ended";
        parts.update({ ...state.world, ended }, event !== null && !ctx.still());
      },
      destroy() {
        parts.destroy();
        for (const place of [root, ctx.banner, ctx.lead]) place.replaceChildren();
      },
    };
  },
  sections: (/** @type {any} */ state) => sections(state.world ?? {}),
  names: () => ({ physicist: "Physicist" }),
  argument,
};
