// @ts-check
// The line for the unusual: an end without a result, a pause, a warning.

import { setAttribute, setText } from "./dom.js";
import { endWords } from "./header.js";
import { clip, plain } from "./text.js";

const LONGEST = 300;

/**
 * The notice; empty if all is well.
 * @param {any} state @param {string | null} [trouble] why the record cannot be written now
 * @returns {{words: string, bad: boolean, passes?: boolean}} what passes lies over the page, so that it moves nothing
 */
export function noticeOf(state, trouble = null) {
  const { episode = {}, warning } = state;
  if (episode.status === "ended" && episode.reason !== "finished") {
    return { words: `${endWords(episode.reason)}${episode.detail ? `: ${plain(episode.detail)}` : ""}. The episode so far is kept.`, bad: episode.reason !== "stopped" };
  }
  if (trouble && episode.status !== "ended") return { words: `Play is paused: ${plain(trouble)}. It resumes automatically; nothing is lost.`, bad: true, passes: true };
  if (episode.parent && episode.turn <= episode.parent.turn && episode.status !== "paused") {
    return { words: `Copied from the match that this one was forked from. Its own captains take over after turn ${episode.parent.turn}.`, bad: false };
  }
  if (episode.status === "paused") return { words: "Paused by the operator.", bad: false, passes: true };
  if (warning && episode.status === "live") return { words: plain(warning.message), bad: true };
  return { words: "", bad: false };
}

const PACE_MS = 8_000;
const PACES = { broadcast: "broadcast", fast: "fast", max: "as fast as possible" };

/** @param {HTMLElement} place */
export function mountNotice(place) {
  /** @type {string | null} */ let trouble = null;
  /** @type {string | null} */ let pace = null;
  let paceUntil = 0;
  return {
    /** Keep why the record cannot be written. @param {import("../live/protocol.js").Frame} frame */
    take(frame) {
      if (frame.frame === "hello") trouble = null;
      if (frame.frame === "trouble") trouble = frame.message;
    },

    /** @param {any} state */
    update(state) {
      const said = noticeOf(state, trouble);
      const words = said.words || paceWords(state.episode ?? {});
      place.hidden = words === "";
      setAttribute(place, "class", `notice ${said.bad ? "notice--bad " : ""}stage__notice${said.passes || !said.words ? " stage__notice--passes" : ""}`);
      setText(place, clip(words, LONGEST));
    },
  };

  /** The notice of a changed pace, for a while. @param {any} episode */
  function paceWords(episode) {
    const changed = pace !== null && episode.pace !== undefined && episode.pace !== pace;
    if (changed) paceUntil = performance.now() + PACE_MS;
    pace = episode.pace ?? pace;
    return episode.status === "live" && performance.now() < paceUntil ? `The operator set the pace: ${PACES[/** @type {"max"} */ (pace)] ?? pace}.` : "";
  }
}
