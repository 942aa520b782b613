// @ts-check
// An episode as a tile: headline, progress, newest line.

import { makeChanceLine } from "./chance_line.js";
import { h, setAttribute, setText } from "./dom.js";
import { endWords } from "./header.js";
import { makeSeats } from "./seats_row.js";
import { clip, plain, words } from "./text.js";
import { drawPicture } from "./tile_picture.js";

/** Marks of a match that is not arranged yet. @type {number[]} */
const NOT_YET = [];

/**
 * A tile that is a link to the episode.
 * @param {string} id @param {string} root @param {string} [look] further class
 */
export function makeTile(id, root, look = "") {
  const status = h("span", { class: "pulse" });
  const world = h("span");
  const at = h("span", { class: "tile__at" });
  const note = h("span", { class: "tile__note" });
  const headline = h("bdi");
  const seats = makeSeats();
  const mark = h("b", { class: "tile__mark" });
  const line = h("bdi");
  const bar = h("progress", { class: "tile__bar", max: "1", value: "0", "aria-hidden": "true" });
  const chances = makeChanceLine();
  const course = h("div", { class: "tile__course" }, bar, chances.element);
  const picture = h("div", { class: "tile__picture", hidden: true, "aria-hidden": "true" });
  /** @type {((picture: any) => void) | null} */ let draw = null;
  /** What the line shows. @type {unknown[]} */ let drawn = [];
  /** The newest line that was shown; null before the first. @type {string | null} */ let shown = null;
  const element = h("a", { class: `card tile ${look}`.trim(), href: new URL(`watch/${encodeURIComponent(id)}`, root).href },
    h("p", { class: "tile__meta" }, status, world, at, note), picture, h("p", { class: "tile__headline" }, headline), course, seats.element,
    h("p", { class: "tile__line" }, mark, line));
  /** Its progress, with its chances so far if there are any. @param {import("../live/wall.js").Tile} tile */
  function drawCourse({ chance, chances: told, glance = {}, picture = {} }) {
    const marks = picture.marks ?? (draw && !Object.keys(picture).length ? NOT_YET : undefined);
    const shown = [told, chance, glance.progress, marks];
    if (shown.every((one, place) => one === drawn[place])) return;
    drawn = shown;
    const { progress } = glance;
    const hasLine = Boolean(told ?? marks); // with marks, or a picture still to come, their room is kept
    setAttribute(course, "data-told", hasLine ? "yes" : null);
    bar.hidden = progress === undefined || hasLine;
    if (!bar.hidden) bar.value = Number(progress);
    if (told) chances.update(told, Number(chance), Number(progress ?? 1), marks ?? []);
  }

  return {
    element,
    /** @param {import("../live/wall.js").Tile} tile */
    update(tile) {
      if (tile.picture && !draw) {
        picture.hidden = false;
        draw = drawPicture(picture, root, tile.environment);
      }
      draw?.(tile.picture);
      const [said, tone] = statusOf(tile);
      setText(status, said);
      setAttribute(status, "data-tone", tone);
      setText(world, clip(plain(tile.title || words(tile.environment)), 30));
      setText(at, clip(plain(tile.glance?.at ?? (tile.turn ? `turn ${tile.turn}` : "")), 40));
      setText(note, [tile.parent ? "fork" : "", `seed ${tile.seed}`].filter(Boolean).join(" · "));
      setText(headline, clip(plain(tile.headline).replaceAll(" (", "\u00a0(") || (tile.seats ?? []).map(plain).join(" against "), 140));
      seats.update((tile.seats ?? []).map(plain), (tile.sides ?? []).map(plain), tile.chance);
      setText(mark, tile.line?.label ? clip(plain(tile.line.label), 8) : "");
      setAttribute(mark, "data-loud", tile.line?.priority === 0 ? "yes" : null);
      setText(line, clip(plain(tile.line?.text ?? ""), 150));
      drawCourse(tile);
      const newest = `${tile.line?.at ?? ""} ${tile.line?.text ?? ""}`;
      if (shown !== null && newest !== shown && tile.line?.priority === 0) flash(element);
      shown = newest;
      setAttribute(element, "data-tense", tile.status === "live" && Number(tile.glance?.suspense ?? 0) >= 0.5 ? "yes" : null);
    },
  };
}

/** Light up once, for an urgent moment. @param {HTMLElement} element */
function flash(element) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  element.animate([{ boxShadow: "inset 0 0 0 3px var(--bright)" }, { boxShadow: "inset 0 0 0 3px transparent" }], { duration: 1_600, easing: "ease-out" });
}

/** @param {import("../live/wall.js").Tile} tile @returns {[string, string]} words and tone */
function statusOf(tile) {
  if (tile.status === "ended") return [endWords(tile.reason), "over"];
  return tile.status === "paused" ? ["Paused", "wait"] : ["Live", "live"];
}
