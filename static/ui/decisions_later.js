// @ts-check
// Fetches the list of decisions and the inspector on first use.

import { h } from "./dom.js";
import { styles } from "./later.js";

/** @typedef {ReturnType<typeof import("./decision_log.js").mountDecisionLog>} DecisionLog */
/** @typedef {ReturnType<typeof import("./inspector.js").mountInspector>} Inspector */
/** @typedef {ReturnType<typeof import("./alternatives.js").mountAlternatives>} Alternatives */

/**
 * Make something once; a failure is retried on the next call.
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
 * @param {Parameters<typeof import("./inspector.js").mountInspector>[2] & {schedule: () => void, act: (action: (player: import("../live/player.js").Player) => void) => void, weighs: boolean}} page
 */
export function decisionsWhenAsked(card, root, episodeId, page) {
  const button = h("button", { class: "chip", type: "button", "aria-pressed": "false", title: "Every decision (D)" }, "Decisions");
  const also = h("button", { class: "chip", type: "button", "aria-pressed": "false", hidden: true, title: "What else could have been called (W)" }, "Alternatives");
  card.querySelector(".card__head")?.append(h("span", { class: "tabs" }, also, button));
  /** @type {DecisionLog | null} */ let log = null;
  /** @type {Alternatives | null} */ let alternatives = null;
  const styled = once(() => styles("decisions"));
  const fetchLog = once(async () => {
    const { mountDecisionLog } = await import("./decision_log.js");
    await styled();
    log = mountDecisionLog(card, button, page);
    page.schedule();
    return log;
  });
  const fetchInspector = once(async () => {
    const { mountInspector } = await import("./inspector.js");
    await styled();
    return mountInspector(root, episodeId, page);
  });
  const fetchAlternatives = once(async () => {
    const { mountAlternatives } = await import("./alternatives.js");
    await styles("alternatives");
    return (alternatives = mountAlternatives(card, also, root, episodeId, page));
  });
  const fetchCostly = once(async () => (await import("./costly.js")).mountCostly(card, page));
  const weigh = () => { if (!also.hidden) void fetchAlternatives().then((found) => found?.toggle()); };
  const toggle = () => void fetchLog().then((found) => found?.toggle());
  const inspect = (/** @type {number | undefined} */ seq = undefined) => void fetchInspector().then((found) => found?.open(seq));
  button.addEventListener("click", toggle);
  also.addEventListener("click", weigh);
  document.addEventListener("click", (event) => {
    const opener = event.target instanceof Element ? event.target.closest("[data-inspect]") : null;
    if (opener) inspect(Number(opener.getAttribute("data-inspect")));
  });
  if (new URLSearchParams(location.search).get("log") === "1") void fetchLog();
  return {
    toggle,
    inspect,
    weigh,
    /** @param {-1 | 1} by */
    costly: (by) => void fetchCostly().then(async (find) => { const made = await find?.(by); if (made) page.act((it) => it.goTo(made.seq)); }),
    /** @param {number} seq @param {Record<string, string>} names */
    update(seq, names) {
      also.hidden = !page.weighs || page.timeline.headState.episode?.status !== "ended";
      log?.update(seq, names);
      alternatives?.update(names);
    },
  };
}
