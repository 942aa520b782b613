// @ts-check
// The operator's controls: stop, pause, resume and pace, with the token if needed.

import { call, rememberToken } from "../live/api.js";
import { makeDialog } from "./dialog.js";
import { h, setText } from "./dom.js";

const PACES = [["broadcast", "Broadcast"], ["fast", "Fast"], ["max", "As fast as possible"]];

/** @param {HTMLButtonElement} opener @param {string} root @param {string} episodeId */
export function mountOperator(opener, root, episodeId) {
  const say = h("p", { class: "dialog__say", role: "status" });
  const pause = h("button", { class: "button", type: "button" }, "Pause the match");
  const stop = h("button", { class: "button button--end", type: "button" }, "Stop the match");
  const paces = PACES.map(([pace, label]) => h("button", { class: "chip", type: "button", data: { pace } }, label));
  const token = h("input", { class: "input", id: "token", type: "password", autocomplete: "off" });
  const form = h("form", { class: "field", hidden: true }, h("label", { for: "token" }, "Operator token, kept in this tab only"), token,
    h("div", { class: "dialog__row" }, h("button", { class: "button button--go" }, "Use it")));
  const reins = h("div", {}, h("div", { class: "dialog__row" }, pause, stop), h("div", { class: "dialog__row" }, h("span", { class: "quiet" }, "Pace"), ...paces));
  const over = h("p", { hidden: true }, "The match has ended. Start another in the ", h("a", { href: root }, "lobby"), ".");
  const dialog = makeDialog("Control this match", h("p", { class: "quiet" }, "Changes apply to every viewer, from the next step on. They are recorded, and everyone sees them."), reins, over, form, say);
  /** @type {(() => Promise<void>) | null} */
  let again = null;
  /** @type {{paused: boolean, pace: string} | null} what the server last answered, until its events say so too: they may be withheld until the next ball */
  let told = null;

  const act = async (/** @type {string} */ verb, /** @type {object} */ fields, /** @type {string} */ done) => {
    setText(say, "…");
    const answer = await call(root, `custom/${verb}`, { episode_id: episodeId, ...fields });
    if (answer.ok) {
      form.hidden = true;
      told = typeof answer.body?.paused === "boolean" ? answer.body : null;
      if (told) show(told.paused, told.pace);
      return setText(say, done);
    }
    if (answer.status === 401 || answer.status === 403) {
      again = () => act(verb, fields, done);
      form.hidden = false;
      token.focus();
    }
    setText(say, answer.message);
  };
  let paused = false;
  const show = (/** @type {boolean} */ stands, /** @type {string} */ pace) => {
    paused = stands;
    setText(pause, stands ? "Resume the match" : "Pause the match");
    for (const chip of paces) chip.setAttribute("aria-pressed", String(chip.dataset.pace === pace));
  };
  pause.addEventListener("click", () => act(paused ? "resume" : "pause", {}, paused ? "Resumed." : "Paused for everyone."));
  stop.addEventListener("click", () => {
    if (stop.dataset.sure === "yes") return void act("stop_episode", {}, "Stopped.");
    stop.dataset.sure = "yes";
    setText(stop, "Really stop it?");
  });
  for (const chip of paces) chip.addEventListener("click", () => act("pace", { pace: chip.dataset.pace }, `Pace: ${chip.textContent.toLowerCase()}.`));
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    rememberToken(token.value);
    token.value = "";
    again?.();
  });
  opener.addEventListener("click", () => {
    delete stop.dataset.sure;
    setText(stop, "Stop the match");
    setText(say, "");
    dialog.showModal();
  });

  return {
    /** @param {Record<string, any>} state the newest, wherever the viewer stands */
    update(state) {
      const episode = state.episode ?? {};
      const stands = episode.status === "paused";
      if (told && (episode.status === "ended" || (told.paused === stands && told.pace === episode.pace))) told = null;
      show(told?.paused ?? stands, told?.pace ?? episode.pace);
      reins.hidden = episode.status === "ended";
      over.hidden = !reins.hidden;
    },
  };
}
