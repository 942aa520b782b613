// @ts-check
// The list of past episodes: searched and filtered by the server, kept in the address, two of them compared.

import { get } from "../live/api.js";
import { blank } from "./choices.js";
import { h, keyed, replace, setAttribute, setText } from "./dom.js";
import { emblem } from "./emblem.js";
import { endWords } from "./header.js";
import { readQuery, writeQuery } from "./query.js";
import { ago, clip, plain, words } from "./text.js";

const PAGE = 25;
const TYPING_MS = 250;
const FILTERS = ["text", "environment", "captain", "pack", "reason", "seed"];
const REASONS = ["finished", "stopped", "interrupted", "timeout", "step_cap", "policy_error", "environment_error"];

/** @param {HTMLElement} place @param {string} root */
export function mountPlayed(place, root) {
  const wanted = readQuery(FILTERS);
  const search = h("input", { class: "input played__search", type: "search", maxlength: 100, placeholder: "Search result, captain, seed…", "aria-label": "Search past episodes", value: wanted.text });
  const choices = h("div", { class: "played__filters" });
  const clear = h("button", { class: "chip", type: "button", hidden: true }, "Show everything");
  const tools = h("div", { class: "played__tools", hidden: true }, search, choices, clear);
  const list = h("div", { class: "played" });
  const older = h("button", { class: "button", type: "button", hidden: true }, "Older");
  const say = h("p", { class: "empty", role: "status" }, "Loading…");
  const compare = h("a", { class: "button button--go" }, "Compare the two");
  const picked = h("div", { class: "picked", role: "status", hidden: true }, h("span", { class: "picked__words" }), compare);
  replace(place, tools, list, say, h("div", { class: "dialog__row" }, older), picked);
  /** @type {any[]} */ let episodes = [];
  /** @type {any[]} */ let two = [];
  /** @type {string | null} */ let next = null;
  let broken = false;
  /** The newest question. @type {Promise<void>} */ let asked = Promise.resolve();
  let asking = 0;
  let typing = 0;

  const filtered = () => FILTERS.some((name) => wanted[name]);
  const draw = () => {
    keyed(list, episodes, (episode) => `${episode.episode_id} ${episode.outcome}`, (episode) => row(episode, root, pick, narrow),
      (element, episode) => setText(element.querySelector(".game__when"), ago(episode.started_at, Date.now())));
    for (const box of list.querySelectorAll(".game__pick")) box.checked = two.some((one) => one.episode_id === box.value);
    tools.hidden = episodes.length < 2 && !filtered();
    clear.hidden = !filtered();
    older.hidden = next === null || broken;
    say.hidden = episodes.length > 0 && !broken;
    if (!broken) setText(say, filtered() ? "No past episode matches. Remove a word or filter." : "Nothing has been played yet. Finished episodes are kept and can be replayed in full.");
    drawPicked();
  };
  const drawPicked = () => {
    picked.hidden = two.length === 0;
    compare.hidden = two.length < 2;
    if (two.length === 0) return;
    const [a, b] = two;
    setText(picked.firstElementChild, b ? (a.environment !== b.environment ? "They are from different worlds." : a.seed !== b.seed ? `Seeds ${a.seed} and ${b.seed}: the luck differs from the first step on.` : `The same seed, ${a.seed}.`) : `Pick another to compare with ${plain(a.captain_label)}; the same seed shows most.`);
    if (b) compare.href = new URL(`compare?a=${encodeURIComponent(a.episode_id)}&b=${encodeURIComponent(b.episode_id)}`, root).href;
  };
  const pick = (/** @type {any} */ episode) => {
    two = two.some((one) => one.episode_id === episode.episode_id) ? two.filter((one) => one.episode_id !== episode.episode_id) : [...two.slice(-1), episode];
    draw();
  };
  const narrow = (/** @type {Record<string, string>} */ further) => {
    Object.assign(wanted, further);
    writeQuery(wanted);
    search.value = wanted.text;
    for (const select of choices.children) select.value = wanted[select.dataset.filter ?? ""];
    return load(null);
  };
  const load = (/** @type {string | null} */ before) => (asked = ask(before));
  const ask = async (/** @type {string | null} */ before) => {
    asking += 1;
    const mine = asking;
    const query = new URLSearchParams({ ended: "true", limit: String(PAGE) });
    for (const name of FILTERS) if (wanted[name]) query.set(name, wanted[name]);
    if (before) query.set("before", before);
    const answer = await get(root, `api/episodes?${query}`);
    if (mine !== asking) return asked;
    broken = !answer.ok;
    if (answer.ok) {
      episodes = before ? [...episodes, ...answer.body.episodes] : answer.body.episodes;
      next = answer.body.next ?? null;
    } else {
      episodes = before ? episodes : [];
      setText(say, `Past episodes could not be loaded. ${answer.message}`);
    }
    draw();
  };
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => narrow({ text: search.value.trim() }), TYPING_MS);
  });
  clear.addEventListener("click", () => narrow(Object.fromEntries(FILTERS.map((name) => [name, ""]))));
  older.addEventListener("click", () => load(next));
  return {
    reload: () => load(null),
    failed: () => broken,
    /** Offer the filters. @param {any} catalog */
    offer(catalog) {
      const captains = new Map(catalog.environments.flatMap((/** @type {any} */ world) => world.captains).map((/** @type {any} */ one) => [one.name, one.label]));
      const packs = [...new Set(catalog.environments.flatMap((/** @type {any} */ world) => world.packs.map((/** @type {any} */ pack) => pack.name)))];
      const offered = [
        filter("environment", "Filter by world", "every world", catalog.environments.map((/** @type {any} */ world) => [world.name, world.title])),
        filter("captain", "Filter by captain", "every captain", [...captains]),
        filter("pack", "Filter by pack", "every pack", packs.map((name) => [name, words(name)])),
        filter("reason", "Filter by end", "every end", REASONS.map((reason) => [reason, endWords(reason)])),
      ];
      replace(choices, ...offered);
    },
  };

  /** @param {string} name @param {string} label @param {string} any @param {[string, string][]} values */
  function filter(name, label, any, values) {
    const known = values.some(([value]) => value === wanted[name]) || !wanted[name] ? values : [...values, /** @type {[string, string]} */ ([wanted[name], wanted[name]])];
    const select = blank(`filter-${name}`, label, [{ value: "", label: any }, ...known.map(([value, text]) => ({ value, label: text, chosen: value === wanted[name] }))]);
    setAttribute(select, "class", "input");
    select.dataset.filter = name;
    select.addEventListener("change", () => narrow({ [name]: select.value }));
    return select;
  }
}

/** @param {any} episode @param {string} root @param {(episode: any) => void} pick @param {(further: Record<string, string>) => void} narrow */
function row(episode, root, pick, narrow) {
  const id = encodeURIComponent(episode.episode_id);
  const finished = episode.reason === "finished";
  const met = /** @type {Record<string, string>} */ ({ 1: "beat", 0.5: "tied with", 0: "lost to" })[episode.outcome] ?? "against";
  const captain = (/** @type {string} */ label) => h("span", { class: "game__captain" }, emblem(plain(label)), " ", h("bdi", {}, clip(plain(label), 60)));
  const result = finished ? plain(episode.result) || "Finished" : `${endWords(episode.reason)} after ${episode.turns ?? 0} turns`;
  const box = h("input", { class: "game__pick", type: "checkbox", value: episode.episode_id, "aria-label": `Compare: ${clip(result, 80)}`, on: { change: () => pick(episode) } });
  const seed = h("button", { class: "game__seed", type: "button", title: "Others with this seed", on: { click: () => narrow({ seed: String(episode.seed), environment: episode.environment }) } }, `seed ${episode.seed}`);
  return h("article", { class: finished ? "game" : "game game--cut" }, h("label", { class: "game__box" }, box),
    h("a", { class: "game__result", href: new URL(`watch/${id}`, root).href }, h("bdi", {}, clip(result, 120))),
    h("span", { class: "game__who" }, captain(episode.captain_label), episode.opponent ? [` ${met} `, captain(episode.opponent_label)] : null, h("br"), h("small", {}, h("bdi", {}, clip(plain(episode.title), 40)), " · ", seed,
      episode.parent ? [" · ", h("a", { href: new URL(`watch/${encodeURIComponent(episode.parent)}`, root).href }, `forked from ${plain(episode.parent).slice(-6)}`)] : null)),
    h("time", { class: "game__when", datetime: episode.started_at }, ago(episode.started_at, Date.now())),
    h("span", { class: "game__score", title: "The sum of the captain’s rewards; in most worlds from 0 to 1" }, ...(episode.score === null ? [] : [h("b", {}, episode.score.toFixed(2)), " score"])),
    h("a", { class: "button game__go", href: new URL(`replay/${id}`, root).href, "aria-label": `Replay: ${clip(result, 80)}` }, "Replay"));
}
