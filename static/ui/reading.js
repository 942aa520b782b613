// @ts-check
// The line that says how far the server is with a long record that it goes through for the first time.

import { h, setAttribute, setText } from "./dom.js";
import { plural } from "./text.js";

const WORDS = "The server is indexing this long record for the first time; next time it opens at once.";

/**
 * Show the line before `place`, or take it away.
 * @param {HTMLElement} place @param {import("../live/past_parts.js").Reading | null} reading
 */
export function showReading(place, reading) {
  let line = document.getElementById("reading");
  if (!reading) return line?.remove();
  if (!line) {
    line = h("div", { class: "notice stage__notice", id: "reading" }, h("p", { role: "status" }, WORDS), h("p", {}, h("progress", { max: 1, "aria-label": "Share of the record indexed" }), " ", h("span")));
    place.before(line);
  }
  const { done, all } = reading;
  setAttribute(line.querySelector("progress"), "value", all ? done / all : null);
  setText(line.querySelector("span"), readingWords(reading));
}

/** @param {import("../live/past_parts.js").Reading} reading */
export function readingWords({ done, all }) {
  return all ? `${Math.floor((100 * done) / all)} % of ${plural(all, "event")}` : "";
}
