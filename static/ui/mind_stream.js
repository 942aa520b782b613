// @ts-check
// A thought while it forms: the newest of it in sight, and how long it takes.

import { h, setText } from "./dom.js";
import { legible } from "../live/thoughts.js";
import { duration, plain } from "./text.js";

const FORMING = 1_200;
const WITHHELD = "Thoughts and plans are shown once the ball has been played.";

/** @typedef {import("../live/thoughts.js").Forming} Forming */

/** Thoughts and reason as they are written, the newest always in sight. */
export function mountStream() {
  const thought = h("bdi", { class: "mind__musing", dir: "auto" });
  const reason = h("bdi", { dir: "auto" });
  const caret = h("span", { class: "mind__caret" });
  const text = h("p", {}, thought, reason, caret);
  const element = h("div", { class: "mind__thought mind__stream", hidden: true }, text);
  return {
    element,
    /** @param {Forming | null} forming */
    show(forming) {
      element.hidden = forming === null;
      if (forming === null) return;
      const musing = tail(plain(forming.thought));
      const stated = tail(plain(legible(forming.answer).prose));
      setText(thought, musing && stated ? `${musing}\n\n` : musing);
      setText(reason, forming.withheld ? WITHHELD : stated);
      caret.hidden = forming.done;
      element.classList.toggle("mind__stream--long", text.offsetHeight > element.clientHeight + 4);
    },
  };
}

/** The end of a text, from a whole word on. @param {string} text */
function tail(text) {
  return text.length <= FORMING ? text : `… ${text.slice(-FORMING).replace(/^\S*\s/u, "").replace(/^[\udc00-\udfff]/u, "")}`;
}

/** @param {Forming | null} forming */
export function clock(forming) {
  if (!forming) return "";
  return forming.done ? `thought for ${duration(forming.seconds)}` : `thinking ${forming.seconds.toFixed(forming.seconds < 10 ? 1 : 0)} s`;
}
