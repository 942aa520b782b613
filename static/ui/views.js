// @ts-check
// What a phone shows under the score, as tabs: the play with the minds, the minds alone, the commentary or the boards.

import { h, setAttribute, setText } from "./dom.js";

/** How long the last ball may take to come to rest, in milliseconds. */
const LANDS_MS = 1_500;

/** Each tab with the parts that it shows; the first part is its own. */
const VIEWS = [["live", "Live", "lead mind"], ["mind", "Mind", "mind body"], ["commentary", "Commentary", "feed"], ["board", "Cards", "body"]];
const STEPS = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1 });

/**
 * @param {HTMLElement} nav @param {HTMLElement} stage whose `data-view` the styles go by
 * @returns {{atEnd(is: boolean, way: "" | "opened" | "played", moves: boolean): void}} at the end the commentary begins with the
 *   report, and is called so; a page that opens there shows it, and one that played until there once the last ball lies, until going back
 */
export function mountViews(nav, stage) {
  const phone = matchMedia("(max-width: 640px)");
  /** Whether the end is shown, and whether the report was turned to by itself. */
  let [wasOver, turned] = [false, false];
  const choose = (/** @type {string} */ name) => {
    stage.dataset.view = name;
    for (const one of tabs) {
      const on = one.dataset.shows === name;
      setAttribute(one, "aria-selected", String(on));
      one.tabIndex = on ? 0 : -1;
    }
  };
  const show = (/** @type {string} */ name) => {
    turned = false;
    choose(name);
    const { top } = stage.getBoundingClientRect();
    if (top < 0) scrollTo({ top: scrollY + top });
  };
  /** Arrows, Home and End go from tab to tab, and not through the match. @param {KeyboardEvent} event */
  const move = (event) => {
    const shown = tabs.filter((one) => one.checkVisibility());
    const at = shown.findIndex((one) => one === event.target);
    const to = event.key === "Home" ? 0 : event.key === "End" ? -1 : event.key in STEPS ? (at + STEPS[event.key]) % shown.length : null;
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    const tab = shown.at(to);
    tab?.focus();
    show(tab?.dataset.shows ?? "live");
  };
  const tabs = VIEWS.map(([name, label, parts]) => h("button", { class: "views__one", type: "button", role: "tab", id: `tab-${name}`, "aria-controls": parts, data: { shows: name }, on: { click: () => show(name), keydown: move } }, label));
  nav.append(...tabs);
  /** Only where tabs are seen are the parts what tabs show. */
  const name = () => VIEWS.forEach(([view, , parts]) => {
    const part = /** @type {HTMLElement} */ (document.getElementById(parts.split(" ")[0]));
    setAttribute(part, "role", phone.matches ? "tabpanel" : null);
    setAttribute(part, "aria-labelledby", phone.matches ? `tab-${view}` : null);
  });
  phone.addEventListener("change", name);
  name();
  stage.addEventListener("show-view", (event) => show(/** @type {CustomEvent<string>} */ (event).detail));
  choose("live");
  const [commentary] = tabs.filter((one) => one.dataset.shows === "commentary");
  /** One view goes before the other comes: nothing is moved from one to the other. */
  const turnToReport = () => {
    if (!wasOver || stage.dataset.view !== "live") return;
    stage.dataset.view = "none";
    requestAnimationFrame(() => requestAnimationFrame(() => { if (stage.dataset.view === "none") choose("commentary"); }));
  };
  return {
    atEnd(is, way, moves) {
      setText(commentary, is ? "Report" : "Commentary");
      if (!is || way === "opened") stage.classList.toggle("stage--report", is);
      const arrived = is && !wasOver && phone.matches && way !== "" && stage.dataset.view === "live";
      wasOver = is;
      if (arrived && way === "played") setTimeout(turnToReport, moves ? LANDS_MS : 0);
      else if (arrived) choose("commentary");
      else if (!is && turned) choose("live");
      if (arrived || !is) turned = is;
    },
  };
}
