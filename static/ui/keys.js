// @ts-check
// The keyboard.

import { SPEEDS } from "../live/player.js";
import { makeDialog } from "./dialog.js";
import { typed } from "./typed.js";

/** @typedef {import("../live/player.js").Player} Player */

/** Keys that move a list which has the focus. */
const SCROLLING = [" ", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];

/**
 * @param {{act: (action: (player: Player) => void) => void, back: (action: (player: Player) => void) => () => Promise<void>,
 *   isLive: () => boolean, help: HTMLElement, chapter: string, inspect: () => void, log: () => void, weigh: () => void, costly: (by: -1 | 1) => void}} wiring
 */
export function mountKeys({ act, back, isLive, help, chapter, inspect, log, weigh, costly }) {
  /** @type {HTMLDialogElement | null} */ let dialog = null;
  const showHelp = async () => {
    try {
      const { keyList } = await import("./key_list.js");
      dialog ??= makeDialog("Keys", keyList(chapter));
      if (!dialog.open) dialog.showModal();
    } catch (error) {
      console.warn("the list of keys could not be fetched", error);
    }
  };
  help.addEventListener("click", showHelp);
  /** @param {-1 | 1} direction */
  const changeSpeed = (direction) => act((it) => it.setSpeed(SPEEDS[SPEEDS.indexOf(it.speed) + direction] ?? it.speed));

  /** @type {Record<string, () => unknown>} */
  const keys = {
    " ": () => act((it) => (it.playing || (it.following && isLive()) ? it.pause() : it.play(isLive()))),
    ArrowLeft: back((it) => it.stepBeat(-1)),
    ArrowRight: () => act((it) => it.stepBeat(1)),
    "shift+ArrowLeft": back((it) => it.stepTurn(-1)),
    "shift+ArrowRight": () => act((it) => it.stepTurn(1)),
    ",": back((it) => it.stepChapter(-1)),
    ".": () => act((it) => it.stepChapter(1)),
    "[": back((it) => it.stepMoment(-1)),
    "]": () => act((it) => it.stepMoment(1)),
    Home: back((it) => { it.pause(); it.seek(0); }),
    End: () => act((it) => it.follow()),
    l: () => act((it) => it.follow()),
    "-": () => changeSpeed(-1),
    "+": () => changeSpeed(1),
    "=": () => changeSpeed(1),
    t: () => document.getElementById("theme")?.click(),
    m: () => document.getElementById("sound")?.dispatchEvent(new Event("toggle-sound")),
    x: () => document.getElementById("text")?.click(),
    a: () => document.getElementById("about")?.click(),
    d: log,
    w: weigh,
    n: () => costly(1),
    p: () => costly(-1),
    i: () => inspect(),
    c: () => document.getElementById("share")?.click(),
    v: () => document.getElementById("clip")?.click(),
    "?": showHelp,
  };

  document.addEventListener("keydown", (event) => {
    const key = typed(event);
    if (!key || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input:not([type=range]), select, textarea, [contenteditable]")) return;
    if (SCROLLING.includes(event.key) && target.closest("[tabindex]")) return;
    if (event.key === " " && target.closest("button, summary, a")) return;
    const action = keys[event.shiftKey && key.startsWith("Arrow") ? `shift+${key}` : key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
