// @ts-check
// The page as text: headings and lines, for braille displays, terminals, slow machines and paper.

import { SOURCE_WORDS } from "../live/decisions.js";
import { h, keyed, setAttribute, setText } from "./dom.js";
import { callParts } from "./mind.js";
import { clip, plain, words } from "./text.js";

const COMMENTARY = 60;

/** @typedef {import("./panel_host.js").Section} Section */

/**
 * @param {{button: HTMLElement, place: HTMLElement, stage: HTMLElement, sections: (state: any) => Section[] | Promise<Section[]>, onToggle: () => void}} wiring
 */
export function mountPlain({ button, place, stage, sections, onToggle }) {
  let on = new URLSearchParams(location.search).get("text") === "1";
  let asks = 0;
  const show = () => {
    place.hidden = !on;
    stage.classList.toggle("stage--text", on);
    setAttribute(button, "aria-pressed", String(on));
    if (!on) place.replaceChildren();
  };
  button.addEventListener("click", () => {
    on = !on;
    const address = new URL(location.href);
    if (on) address.searchParams.set("text", "1");
    else address.searchParams.delete("text");
    history.replaceState(null, "", address);
    show();
    onToggle();
  });
  show();
  return {
    /** @param {Record<string, any>} state @param {{names: Record<string, string>}} view */
    async update(state, view) {
      if (!on) return;
      const asked = asks += 1;
      const told = await sections(state);
      if (asked !== asks || !on) return;
      const all = [...told, mindSection(state, view.names), feedSection(state)].filter((one) => one.lines.length);
      keyed(place, all, (one) => one.title, (one) => fill(h("section", {}, h("h2", {}, clip(plain(one.title), 80)), h("ul")), one), fill);
    },
  };
}

/** @param {HTMLElement} section @param {Section} content */
function fill(section, content) {
  const list = /** @type {Element} */ (section.lastElementChild);
  content.lines.forEach((line, index) => setText(list.children[index] ?? list.appendChild(h("li", { dir: "auto" })), clip(plain(line), 500)));
  while (list.children.length > content.lines.length) list.lastElementChild?.remove();
  return section;
}

/** Each actor's last thought and call, a line each. @param {any} state @param {Record<string, string>} names @returns {Section} */
export function mindSection(state, names) {
  const lines = Object.entries(state.decisions ?? {}).flatMap(([actor, decision]) => [
    `${names[actor] ?? words(actor)}, ${decision.model ?? SOURCE_WORDS[decision.source] ?? decision.source}: ${decision.reasoning || "no reason given."}`,
    `Called: ${callParts(decision.action).map((part) => part.textContent).join(", ")}.`,
    ...(decision.refused ? [`Refused: ${decision.refused.message}`] : []),
    ...(decision.fallback_reason ? [`The fallback had to decide${decision.failure_class ? ` (${words(decision.failure_class)})` : ""}: ${decision.fallback_reason}`] : []),
  ]);
  return { title: "Who decides, and why", lines };
}

/** @param {any} state @returns {Section} */
export function feedSection(state) {
  const lines = Object.entries(state.feed ?? {}).sort(([a], [b]) => (a < b ? 1 : -1)).slice(0, COMMENTARY)
    .map(([, line]) => [line.at, line.label && line.label !== "·" ? line.label : "", line.text].filter(Boolean).join("  "));
  return { title: "Commentary, newest first", lines };
}
