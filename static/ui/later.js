// @ts-check
// Fetches parts of the watch page when they are first used, and the seat when a person plays: few viewers need any.

import { playedElsewhere } from "../live/decisions.js";
import { h, setText } from "./dom.js";
import { plain } from "./text.js";

/** Milliseconds before a failed fetch is retried. */
const AGAIN_MS = 2_000;

/** @typedef {ReturnType<typeof import("./seat.js").mountSeat>} Seat */

/**
 * Mount a part when its button is first used, and pass that use on; a failure is retried on the next use.
 * @template T @param {HTMLElement} button @param {() => Promise<T>} mount @param {string[]} uses
 * @returns {() => T | null} the part, once it is there
 */
function mountOnUse(button, mount, uses = ["click"]) {
  /** @type {T | null} */ let part = null;
  let fetching = false;
  const use = async (/** @type {Event} */ event) => {
    if (fetching) return;
    fetching = true;
    try {
      part = await mount();
      uses.forEach((type) => button.removeEventListener(type, use));
      button.dispatchEvent(new Event(event.type));
    } catch (error) {
      fetching = false;
      console.warn("a part of the page could not be fetched", error);
    }
  };
  uses.forEach((type) => button.addEventListener(type, use));
  return () => part;
}

/** Fetch the styles of a part; without them it works all the same. @param {string} name @returns {Promise<unknown>} */
export const styles = (name) => new Promise((done) => {
  const { src } = /** @type {HTMLScriptElement} */ (document.querySelector('script[src$="/watch.js"]'));
  document.head.append(h("link", { rel: "stylesheet", href: new URL(`styles/components/${name}.css`, src).href, on: { load: done, error: done } }));
});

/**
 * @param {HTMLElement} button @param {HTMLElement} caption @param {Parameters<typeof import("./sound.js").mountSound>[2]} page
 * @returns {ReturnType<typeof import("./sound.js").mountSound>}
 */
export function soundWhenUsed(button, caption, page) {
  const sound = mountOnUse(button, async () => {
    await styles("sound");
    return (await import("./sound.js")).mountSound(button, caption, page);
  }, ["click", "toggle-sound"]);
  return { moved(seq, jumped) { sound()?.moved(seq, jumped); } };
}

/** @param {Parameters<typeof import("./plain.js").mountPlain>[0]} page @returns {ReturnType<typeof import("./plain.js").mountPlain>} */
export function plainWhenAsked(page) {
  const text = mountOnUse(page.button, async () => {
    await styles("plain");
    const part = (await import("./plain.js")).mountPlain(page);
    page.onToggle();
    return part;
  }, ["click", "show-text"]);
  if (new URLSearchParams(location.search).get("text") === "1") page.button.dispatchEvent(new Event("show-text"));
  return { update(state, view) { text()?.update(state, view); } };
}

/**
 * The same for a part that is updated: it begins with the newest state.
 * @param {HTMLElement} button @param {() => Promise<{update: (...newest: any[]) => void}>} mount
 */
function updatedWhenUsed(button, mount) {
  /** @type {any[]} */ let newest = [];
  const part = mountOnUse(button, async () => {
    const mounted = await mount();
    if (newest.length) mounted.update(...newest);
    return mounted;
  });
  return (/** @type {any[]} */ ...state) => {
    newest = state;
    part()?.update(...state);
  };
}

/** @param {HTMLButtonElement} button @param {string} root @param {string} episodeId @returns {ReturnType<typeof import("./about.js").mountAbout>} */
export const aboutWhenAsked = (button, root, episodeId) => ({ update: updatedWhenUsed(button, async () => (await import("./about.js")).mountAbout(button, root, episodeId)) });

/** @param {HTMLButtonElement} opener @param {string} root @param {string} episodeId @returns {ReturnType<typeof import("./operator.js").mountOperator>} */
export function operatorWhenUsed(opener, root, episodeId) {
  const update = updatedWhenUsed(opener, async () => (await import("./operator.js")).mountOperator(opener, root, episodeId));
  return {
    update(state) {
      opener.hidden = playedElsewhere(state.episode);
      update(state);
    },
  };
}

/** @type {typeof import("./rematch.js").startRematch} */
const startRematch = async (...asked) => (await import("./starts.js")).startRematch(...asked);

/**
 * The card of the end, fetched at the end.
 * @param {() => void} come hears that it is there @param {string} root @param {Omit<Parameters<typeof import("./ending.js").mountEnding>[1], "startRematch" | "best"> & {best: () => Promise<string>}} page
 */
export function endingWhenOver(come, root, page) {
  /** @type {ReturnType<typeof import("./ending.js").mountEnding> | null} */ let ending = null;
  let fetching = false;
  let failed = false;
  return {
    get element() { return ending?.element ?? null; },
    /** Whether the lines below it must wait, so that it pushes nothing away. */
    get awaited() { return fetching && !ending && !failed; },
    /** @param {any} state at the end */
    update(state) {
      if (ending) return ending.update(state);
      if (fetching) return;
      fetching = true;
      void (async () => {
        const [{ mountEnding }, best] = await Promise.all([import("./ending.js"), page.best(), styles("ending")]);
        ending = mountEnding(root, { ...page, best, startRematch });
      })().then(come, () => { fetching = false; failed = true; setTimeout(come, AGAIN_MS); });
    },
  };
}

/** @param {HTMLElement | null} button @param {string} root @param {string} episodeId @param {() => number} seq */
export function clipWhenAsked(button, root, episodeId, seq) {
  if (button) mountOnUse(button, async () => (await import("./sharing.js")).mountClip(/** @type {HTMLButtonElement} */ (button), root, episodeId, seq));
}

/** @param {Parameters<typeof import("./share.js").mountShare>} page */
export function shareWhenUsed(...page) {
  mountOnUse(page[0], async () => (await import("./sharing.js")).mountShare(...page));
  if (window.parent !== window) void (async () => (await import("./sharing.js")).tellFrame(page[1], Number(new URLSearchParams(location.search).get("seq")) || null))();
}

/**
 * The fork dialog on first use, and the link to the fork's parent.
 * @param {HTMLButtonElement} opener @param {HTMLAnchorElement} origin link to the parent @param {string} root @param {string} episodeId
 * @param {Parameters<typeof import("./fork.js").mountFork>[3]} page
 */
export function forkWhenAsked(opener, origin, root, episodeId, page) {
  mountOnUse(opener, async () => (await import("./starts.js")).mountFork(opener, root, episodeId, page));
  return {
    /** @param {any} state the newest, wherever the viewer stands */
    update(state) {
      const parent = state.episode?.parent;
      opener.hidden = page.timeline.headSeq === 0 || playedElsewhere(state.episode);
      origin.hidden = !parent;
      if (!parent || origin.textContent) return;
      setText(origin, `forked from ${plain(parent.episode_id).slice(-6)} at turn ${parent.turn}`);
      origin.href = new URL(`watch/${encodeURIComponent(parent.episode_id)}?seq=${parent.seq}`, root).href;
    },
  };
}

/** @param {Parameters<typeof import("./seat.js").mountSeat>} page @returns {Seat} */
export function seatWhenPlayed(...page) {
  const changed = page[3];
  /** @type {Seat | null} */ let seat = null;
  let fetching = false;
  async function fetchSeat() {
    fetching = true;
    try {
      await styles("seat");
      const { mountSeat } = await import("./seat.js");
      seat = mountSeat(...page);
      changed();
    } catch (error) {
      console.warn("a part of the page could not be fetched", error);
      setTimeout(() => { fetching = false; changed(); }, AGAIN_MS);
    }
  }
  return {
    asked: () => seat?.asked() ?? false,
    update(state, names) {
      if (seat) seat.update(state, names);
      else if (!fetching && Object.values(state.episode?.seats ?? {}).some((one) => one.source === "human")) void fetchSeat();
    },
  };
}

/** What viewers call along, fetched with its first frame; the last result is shown in `last`, beside the ending. @param {string} root @param {string} episodeId @param {{send: (message: object) => boolean}} source */
export function crowdWhenAsked(root, episodeId, source) {
  /** @type {Promise<ReturnType<typeof import("./crowd.js").mountCrowd>> | null} */ let crowd = null;
  const last = h("p", { class: "ending__crowd", role: "status", hidden: true });
  return {
    last,
    take(/** @type {any} */ frame) {
      if (frame.frame === "crowd") crowd ??= styles("crowd").then(async () => (await import("./crowd.js")).mountCrowd(root, episodeId, source, last));
      crowd?.then((it) => it.take(frame), () => { crowd = null; });
    },
  };
}

/** @param {HTMLElement} place @returns {(reading: import("../live/past_parts.js").Reading | null) => Promise<void>} */
export function readingWhenSlow(place) {
  return async (reading) => (await import("./reading.js")).showReading(place, reading);
}
