// @ts-check
// Playing on from here with other captains.

import { call, get } from "../live/api.js";
import { takeStarted } from "../live/seats.js";
import { blank, presetOptions } from "./choices.js";
import { makeDialog } from "./dialog.js";
import { h, replace, setText } from "./dom.js";
import { showRefusal } from "./refusal.js";
import { clip, plain } from "./text.js";

const PACES = [["broadcast", "at broadcast pace"], ["fast", "fast"], ["max", "as fast as possible"]];

/**
 * @param {HTMLButtonElement} opener @param {string} root @param {string} episodeId
 * @param {{timeline: import("../live/timeline.js").Timeline, seq: () => number, wholeRecord: () => Promise<void>}} wiring
 */
export function mountFork(opener, root, episodeId, { timeline, seq, wholeRecord }) {
  const where = h("p", { class: "fork__where" });
  const fields = h("div", { class: "fork__fields" });
  const wrong = h("div", { class: "notice notice--bad", role: "alert", hidden: true });
  const go = h("button", { class: "button button--go" }, "Play on from here");
  const parent = timeline.headState.episode?.parent?.episode_id;
  const pair = parent ? `compare?a=${encodeURIComponent(parent)}&b=${encodeURIComponent(episodeId)}` : `compare?a=${encodeURIComponent(episodeId)}`;
  const compare = h("a", { class: "button", href: new URL(pair, root).href }, parent ? "Compare with the original" : "Compare with others on this seed");
  const form = h("form", { class: "fork" }, where, fields, wrong, h("div", { class: "dialog__row" }, go, compare));
  const dialog = makeDialog("Play on from here", h("p", { class: "quiet" }, "A new match shares this one’s past and continues with the captains you choose. This one does not change."), form);
  /** @type {Record<string, any>} */
  let controls = {};
  let at = 0;

  const compose = async (/** @type {any} */ state) => {
    const episode = state.episode ?? {};
    const answer = await get(root, "custom/catalog");
    const world = answer.body?.environments?.find((/** @type {any} */ one) => one.name === episode.environment);
    if (!world) return replace(fields, h("p", {}, answer.ok ? "This server no longer has its world, so it cannot be continued." : answer.message));
    const seats = Object.entries(episode.seats ?? {});
    const other = seats.find(([actor]) => actor !== episode.agent)?.[1];
    controls = { captain_preset: blank("fork-captain", "Captain", presetOptions(world.captains, episode.seats?.[episode.agent]?.policy ?? null)) };
    if (other && world.opponents.length) {
      controls.opponent_choice = blank("fork-opponent", "Opponent", [{ value: "", label: `${plain(other.label)}, as before`, chosen: true }, ...presetOptions(world.opponents, null)]);
    }
    controls.pace = blank("fork-pace", "Pace", PACES.map(([value, label]) => ({ value, label })));
    controls.seed = h("input", { class: "input", id: "fork-seed", inputmode: "numeric", autocomplete: "off", placeholder: "as before" });
    const labels = { captain_preset: "Captain", opponent_choice: "Opponent", pace: "Pace", seed: "Seed of the captains; the world’s luck does not change" };
    replace(fields, ...Object.entries(controls).map(([name, control]) => {
      control.classList.add("input");
      return h("div", { class: "field" }, h("label", { for: control.id }, labels[/** @type {"seed"} */ (name)]), control);
    }));
  };

  opener.addEventListener("click", async () => {
    await wholeRecord();
    at = timeline.turnEnd(seq());
    const over = timeline.headState.episode?.reason === "finished" && timeline.eventAt(at)?.turn === timeline.eventAt(timeline.headSeq)?.turn;
    if (over) at = timeline.previousTurn(at);
    const state = timeline.stateAt(at);
    wrong.hidden = true;
    const place = [state.world?.glance?.at, state.world?.headline].filter(Boolean).map((text) => clip(plain(text), 120)).join(": ") || `after turn ${state.episode?.turn ?? 0}`;
    setText(where, over ? `The game is over here; continuing from just before its end: ${place}` : place);
    dialog.showModal();
    await compose(timeline.headState);
  });
  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    go.disabled = true;
    setText(go, "Loading earlier events…");
    const asked = Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value.trim()]).filter(([, value]) => value !== ""));
    const seed = /^\d+$/.test(asked.seed ?? "") ? { seed: Number(asked.seed) } : {};
    const answer = await call(root, "custom/fork", { episode_id: episodeId, seq: at, ...asked, ...seed });
    if (answer.ok) takeStarted(answer.body);
    if (answer.ok) return location.assign(new URL(`watch/${encodeURIComponent(answer.body.episode_id)}`, root));
    go.disabled = false;
    setText(go, "Play on from here");
    showRefusal(wrong, answer, root, { again: () => form.requestSubmit() });
  });
  addEventListener("pageshow", () => { go.disabled = false; setText(go, "Play on from here"); });
}
