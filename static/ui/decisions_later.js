// @ts-check
// Fetches the list of decisions and what was behind one when somebody first asks for them.

import { h } from "./dom.js";

/** @typedef {ReturnType<typeof import("./decision_log.js").mountDecisionLog>} DecisionLog */
/** @typedef {ReturnType<typeof import("./inspector.js").mountInspector>} Inspector */

/**
 * Make something once; what failed is tried again by the next who asks.
 * @template T @param {() => Promise<T>} make @returns {() => Promise<T | null>} null where it failed
 */
function once(make) {
  /** @type {Promise<T | null> | null} */ let made = null;
  return () => (made ??= make().catch((error) => {
    console.warn("decisions could not be fetched", error);
    made = null;
    return null;
  }));
}

/**
 * @param {HTMLElement} card of the commentary @param {string} root @param {string} episodeId
 * @param {Parameters<typeof import("./inspector.js").mountInspector>[2] & {schedule: () => void}} page
 */
export function decisionsWhenAsked(card, root, episodeId, page) {
  const button = h("button", { class: "chip", type: "button", "aria-pressed": "false", title: "Every decision (D)" }, "Decisions");
  card.querySelector(".card__head")?.append(button);
  /** @type {DecisionLog | null} */ let log = null;
  const fetchLog = once(async () => {
    const { mountDecisionLog } = await import("./decision_log.js");
    log = mountDecisionLog(card, button, page);
    page.schedule();
    return log;
  });
  const fetchInspector = once(async () => {
    const { mountInspector } = await import("./inspector.js");
    return mountInspector(root, episodeId, page);
  });
  const toggle = () => void fetchLog().then((found) => found?.toggle());
  const inspect = (/** @type {number | undefined} */ seq = undefined) => void fetchInspector().then((found) => found?.open(seq));
  button.addEventListener("click", toggle);
  document.addEventListener("click", (event) => {
    const opener = event.target instanceof Element ? event.target.closest("[data-inspect]") : null;
    if (opener) inspect(Number(opener.getAttribute("data-inspect")));
  });
  if (new URLSearchParams(location.search).get("log") === "1") void fetchLog();
  return {
    toggle,
    inspect,
    /** @param {number} seq @param {Record<string, string>} names */
    update(seq, names) { log?.update(seq, names); },
  };
}
