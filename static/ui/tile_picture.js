// @ts-check
// The picture of a tile, drawn by its world's `tile.js`, and only while it is in view.

import * as charts from "../charts/charts.js";
import { replace, setAttribute, svg } from "./dom.js";

/** What the module is given; colours are the names of styles/tokens.css. */
const tools = { ui: { svg, replace, setAttribute }, charts };

/** Pictures this near the window count as in view. */
const NEAR = "25% 0px";

/** Whether nothing may move. */
const still = () => document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * @param {HTMLElement} place @param {string} root @param {string} world its name
 * @returns {(picture: any) => void} takes what is to be drawn
 */
export function drawPicture(place, root, world) {
  /** @type {{element: Element, update: (picture: any, moves: boolean) => void} | null} */ let mounted = null;
  /** @type {any} */ let wanted = null;
  /** @type {any} */ let drawn = null;
  let seen = false;

  const fail = (/** @type {unknown} */ error) => {
    console.error(`the picture of ${world} failed`, error);
    mounted = null;
    replace(place);
    place.hidden = true;
  };
  const draw = () => {
    if (!mounted || !seen || drawn === wanted || !Object.keys(wanted ?? {}).length) return;
    try {
      mounted.update(wanted, drawn !== null && !still());
      drawn = wanted;
    } catch (error) {
      fail(error);
    }
  };

  new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1].isIntersecting;
    if (!seen) drawn = null; // what comes into view stands there, without motion
    draw();
  }, { rootMargin: NEAR }).observe(place);
  import(new URL(`panels/${encodeURIComponent(world)}/tile.js`, root).href).then(({ default: module }) => {
    mounted = module.mount(tools);
    replace(place, mounted?.element);
    draw();
  }).catch(fail);
  return (picture) => {
    wanted = picture;
    draw();
  };
}
