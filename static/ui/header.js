// @ts-check
// The words of the header: whether it is live, how many watch, how far away the server is.

import { setAttribute, setText } from "./dom.js";
import { plural } from "./text.js";

/** @typedef {import("../live/source.js").Link} Link */

/**
 * The state of things in words, with the tone they are said in.
 * @param {Link} link @param {any} episode as it is at the newest event
 * @param {{following: boolean, playing: boolean, atEdge: boolean}} player
 * @returns {{words: string, tone: "live" | "wait" | "over" | "bad", title: string}}
 */
export function statusWords(link, episode, player) {
  const ended = episode?.status === "ended";
  if (link.phase === "waiting") return { words: `Reconnecting in ${Math.ceil((link.retryInMs ?? 0) / 1000)} s`, tone: "wait", title: link.reason };
  if (link.phase === "connecting") return { words: link.attempt ? "Reconnecting" : "Connecting", tone: "wait", title: link.reason };
  if (link.phase === "closed" && !ended) return { words: link.reason ? `Closed: ${link.reason}` : "Closed", tone: "bad", title: link.reason };
  if (ended) return { words: player.atEdge ? endWords(episode.reason) : "Replay", tone: "over", title: episode.detail ?? "" };
  if (!player.following) return { words: player.playing ? "Catching up" : "Behind live", tone: "wait", title: "" };
  if (episode?.status === "paused") return { words: "Paused", tone: "wait", title: "Paused by the operator" };
  if (link.phase === "open" && link.way === "stream") return { words: "Live, streaming", tone: "live", title: "No WebSocket could be opened; events arrive over plain HTTP" };
  if (link.phase === "record") return { words: "Live, polling", tone: "live", title: "No WebSocket could be opened; the page polls every two seconds" };
  return { words: "Live", tone: "live", title: "" };
}

/** @param {string} reason */
export function endWords(reason) {
  return {
    finished: "Finished", stopped: "Stopped", interrupted: "Interrupted", timeout: "Timed out", step_cap: "Cut short",
    policy_error: "Captain failed", environment_error: "World failed",
  }[reason] ?? "Ended";
}

/** @typedef {{link: Link, episode: any, player: {following: boolean, playing: boolean, atEdge: boolean}, viewers: number | null, lag: number | null}} HeaderView */

const COUNT_EVERY_MS = 250;

/** @param {{state: HTMLElement, viewers: HTMLElement, lag: HTMLElement, retry: HTMLElement}} places @param {() => void} tryNow connects at once */
export function mountHeader({ state, viewers, lag, retry }, tryNow) {
  /** @type {Link | null} */ let counted = null;
  let titled = "";
  let since = 0;
  /** @type {HeaderView | null} */ let shown = null;
  retry.addEventListener("click", tryNow);
  setInterval(() => { if (shown?.link.phase === "waiting") tellState(shown); }, COUNT_EVERY_MS);

  /** @param {HeaderView} view */
  function tellState(view) {
    if (view.link !== counted) [counted, since] = [view.link, performance.now()];
    const left = Math.max(0, (view.link.retryInMs ?? 0) - (performance.now() - since));
    const status = statusWords({ ...view.link, retryInMs: left }, view.episode, view.player);
    setText(state, status.words);
    setAttribute(state, "data-tone", status.tone);
    setAttribute(state, "title", status.title || null);
    retry.hidden = view.link.phase !== "waiting";
  }

  return {
    /** @param {HeaderView} view */
    update(view) {
      shown = view;
      tellState(view);
      const away = view.link.phase !== "open";
      setText(viewers, view.viewers === null || away ? "" : `${plural(view.viewers, "watching", "watching")}`);
      setText(lag, view.lag === null || away ? "" : `${Math.round(view.lag)} ms`);
    },
    /** Change the tab's title once the ball has landed. @param {string} words @param {number} afterMs */
    title(words, afterMs) {
      if (words !== titled) setTimeout(() => { if (words === titled) document.title = words; }, afterMs);
      titled = words;
    },
  };
}
