// @ts-check
// The operator's page: usage, refreshed while visible, and controls.

import { call, read, recallToken, rememberToken } from "./live/api.js";
import { byId, h, pageRoot, replace, setAttribute, setText, svg } from "./ui/dom.js";
import { plural } from "./ui/text.js";

const EVERY_MS = 3_000;
const NEAR = 0.7;

const root = pageRoot();
const state = byId("state");
const say = byId("say");
const pause = byId("pause");
let paused = false;

/** @param {string} text */
function tell(text) {
  say.hidden = text === "";
  setText(say, text);
}

/** @param {number} bytes */
const mb = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

/** @param {number} value */
const number = (value) => value.toLocaleString("en", { maximumFractionDigits: 2 });

/** @param {Element} list @param {[string, string][]} pairs */
function figures(list, pairs) {
  replace(list, ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** Send a command and show its result. @param {string} path @param {object} fields @param {string} done @param {string} [method] */
async function act(path, fields, done, method) {
  const answer = await call(root, path, fields, method);
  tell(answer.ok ? done : answer.message);
  await refresh();
  return answer.ok;
}

/** A button that asks once more before it acts. @param {string} label @param {() => void} go */
function sure(label, go) {
  const button = h("button", { class: "button button--end", type: "button" }, label);
  button.addEventListener("click", () => {
    if (button.dataset.sure === "yes") return go();
    button.dataset.sure = "yes";
    setText(button, "Click again to confirm");
  });
  return button;
}

/** @param {any} one */
function episode(one) {
  const who = one.opponent ? `${one.captain} against ${one.opponent}` : one.captain;
  const from = one.address === null ? "address unknown" : `from ${one.address}`;
  return h("li", { class: "operator__item" },
    h("p", {}, h("a", { href: new URL(`watch/${one.episode_id}`, root).href }, h("bdi", {}, who)), ` · ${one.environment}${one.paused ? " · paused" : ""}${one.shown ? " · shown only" : ""}`, h("br"),
      h("small", {}, `${from} · ${plural(one.turn, "turn")} · ${plural(one.events, "event")} · ${plural(one.viewers, "viewer")} · `, h("span", { title: one.episode_id }, `…${one.episode_id.slice(-8)}`))),
    one.shown ? h("span", { class: "badge" }, "played elsewhere") : sure("Stop", () => void act("custom/stop_episode", { episode_id: one.episode_id }, "Stopped.")));
}

/** @param {any} one */
function budget(one) {
  const share = one.limit ? Math.min(1, one.used / one.limit) : 0;
  const addresses = Object.entries(one.addresses).map(([address, used]) => `${address}: ${number(used)}`).join(" · ");
  return h("li", { class: "operator__item" },
    h("p", {}, h("b", {}, one.words[0].toUpperCase() + one.words.slice(1)), `: ${one.limit ? `${number(one.used)} of ${number(one.limit)}` : `${number(one.used)}, no limit`}`, h("br"), h("small", {}, h("code", {}, one.name), addresses ? ` · ${addresses}` : "")),
    h("div", { class: "operator__meter", "aria-hidden": "true", data: { tone: share >= 1 ? "full" : share >= NEAR ? "near" : null } }, svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none" }, svg("rect", { width: 100 * share, height: 8 }))));
}

/** @param {any} one */
const deleted = (one) => h("li", { class: "operator__item" }, h("p", {}, h("code", {}, one.episode_id), ` · ${plural(one.events, "event")} · ${one.deleted_at}`, h("br"), h("small", {}, h("code", {}, one.digest ?? "no digest"))));

/** @param {any} one */
const trouble = (one) => h("li", { class: "operator__item" },
  h("p", {}, one.detail, h("br"), h("small", {}, one.episode_id ? `${one.episode_id} · ` : "", one.since ? `since ${one.since} · ` : "", "what to do: ", h("code", {}, `docs/runbook.md#${one.kind}`))));

/** @param {string} name */
function hidden(name) {
  const button = h("button", { class: "button", type: "button" }, "Unhide");
  button.addEventListener("click", () => void act("operator/unhide", { name }, `${name} is visible again.`));
  return h("li", { class: "operator__item" }, h("p", {}, h("bdi", {}, name)), button);
}

/** Redraw a list only when it changed, so that a button keeps its focus. @param {string} id @param {any[]} items @param {(item: any) => Element} draw */
function list(id, items, draw) {
  const element = byId(id), text = JSON.stringify(items);
  if (element.dataset.drawn === text) return;
  element.dataset.drawn = text;
  replace(element, ...items.map(draw));
}

/** @param {any} status */
function show(status) {
  paused = status.paused_since !== null;
  setText(byId("summary"), `${plural(status.episodes.length, "episode")} running; the journal ${status.journal.bytes === null ? "has not been measured yet" : `has ${mb(status.journal.bytes)}`}.`);
  setText(byId("starts"), paused ? `Paused since ${status.paused_since}. Running episodes continue; only operators can start, fork or publish.` : "Open: anyone may start within the budgets below.");
  setText(pause, paused ? "Resume starts" : "Pause starts");
  const { journal, models_today: models } = status;
  figures(byId("figures"), [
    ["Event loop lag, maximum over a minute", `${(1000 * status.loop_lag_s).toFixed(1)} ms`],
    ["Model tokens today", number(models.tokens)],
    ["Model cost today", `US$${models.cost.toFixed(2)}`],
    ["Characters spoken today", number(status.characters_today)],
    ["Journal", journal.bytes === null ? "unknown yet" : `${mb(journal.bytes)}${journal.limit_bytes ? ` of ${mb(journal.limit_bytes)}` : ""}`],
    ["Episodes in the journal", journal.episodes === null ? "unknown yet" : number(journal.episodes)],
    ["Unfinished episodes", mb(journal.unended_bytes)],
  ]);
  list("troubles", status.trouble, trouble);
  byId("trouble").hidden = status.trouble.length === 0;
  list("episodes", status.episodes, episode);
  byId("none").hidden = status.episodes.length > 0;
  list("budgets", status.budgets, budget);
  const refusals = Object.entries(status.refusals);
  figures(byId("refusals"), refusals.map(([name, count]) => [name, number(count)]));
  byId("no-refusals").hidden = refusals.length > 0;
  list("names", status.hidden, hidden);
  list("deleted", status.deleted, deleted);
}

async function refresh() {
  const answer = await read(root, "operator/status");
  const locked = answer.status === 401 || answer.status === 403;
  byId("token-form").hidden = answer.status !== 401;
  byId("parts").hidden = !answer.ok && locked;
  if (!answer.ok) setText(state, locked ? "Locked" : "Offline");
  if (answer.ok) {
    show(answer.body);
    setText(state, answer.body.trouble.length > 0 ? "Trouble" : paused ? "Starts paused" : "Open");
  } else tell(answer.status === 401 && !recallToken() ? "This page is for the operator. Enter the token that the server was started with (SPECTATOR_OPERATOR_TOKEN)." : answer.message);
  setAttribute(state, "data-tone", !answer.ok || answer.body.trouble.length > 0 ? "bad" : paused ? "wait" : "over");
}

/** One round after another, never two at once. */
async function keepFresh() {
  if (!document.hidden) await refresh();
  setTimeout(keepFresh, EVERY_MS);
}

pause.addEventListener("click", () => void act(paused ? "operator/resume" : "operator/pause", {}, paused ? "Anyone may start again." : "Starts are paused, even after a restart."));
byId("token-form").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  rememberToken(byId("token").value);
  byId("token").value = "";
  tell("");
  void refresh();
});
byId("hide").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const name = byId("name").value;
  if (await act("operator/hide", { name }, `${name} is hidden in the history and on the leaderboard.`)) byId("name").value = "";
});
byId("delete").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const id = byId("episode").value.trim();
  if (id && await act(`api/episodes/${encodeURIComponent(id)}`, {}, `${id} is deleted.`, "DELETE")) byId("episode").value = "";
});
await keepFresh();
