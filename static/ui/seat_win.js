// @ts-check
// A person's victory as a line to share, with the episode's card.

import { h, replace, setText } from "./dom.js";

/** @param {string} root @param {string} episodeId */
export function makeWin(root, episodeId) {
  const [page, card] = [`watch/${encodeURIComponent(episodeId)}`, `card/${encodeURIComponent(episodeId)}.png`].map((path) => new URL(path, root).href);
  const element = h("div", { class: "seat__win", hidden: true });
  return {
    element,
    /** Returns whether there is anything to show. @param {string} line "I beat Old Pro by 4 runs" */
    show(line) {
      element.hidden = line === "";
      if (element.hidden) return false;
      const said = h("small", { role: "status" });
      const copy = h("button", { class: "button button--go", type: "button" }, "Copy with the link");
      copy.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(`${line}. ${page}`);
          setText(said, "Copied: paste it anywhere, and the card comes with the link.");
        } catch {
          setText(said, `Copy this: ${line}. ${page}`);
        }
      });
      replace(element, h("p", { class: "seat__boast" }, h("bdi", {}, line)), copy, h("a", { class: "button", href: card, target: "_blank", rel: "noopener" }, "See the card"), said);
      return true;
    },
  };
}
