// @ts-check
// The clock of a seat: a bar and figures, and a warning before the time is up.

import { h, setAttribute, setText } from "./dom.js";
import { clockText } from "./seat_words.js";

const TICK_MS = 250;
const HURRY_S = 10;

/** @param {HTMLElement} place @param {HTMLElement} say @param {{asked: () => {limit_s: number} | null, left: () => number, stands: () => boolean, over: () => void}} seat */
export function makeClock(place, say, { asked, left, stands, over }) {
  const figures = h("span", { class: "seat__left" });
  const bar = h("progress", { class: "seat__clock", max: 1, value: 1, "aria-label": "Time left" });
  let hurried = false;

  function tick() {
    const now = asked();
    if (!now) return;
    const seconds = Math.max(0, left());
    setText(figures, stands() ? `${clockText(seconds)}, paused` : clockText(seconds));
    setAttribute(bar, "max", now.limit_s);
    bar.value = seconds;
    const hurry = seconds <= HURRY_S && !stands();
    place.classList.toggle("seat--hurry", hurry);
    if (hurry && !hurried) setText(say, `${Math.ceil(seconds)} seconds left, then the fallback decides.`);
    hurried = hurry;
    if (seconds === 0) over();
  }
  setInterval(tick, TICK_MS);
  return { figures, bar, tick, again() { hurried = false; tick(); }, clear() { setText(figures, ""); } };
}
