// @ts-check
// Owns the list of what was played.

import { get } from "../live/api.js";
import { h, keyed, replace, setText } from "./dom.js";
import { endWords } from "./header.js";
import { ago, clip, plain, words } from "./text.js";

const PAGE = 25;

/** @param {HTMLElement} place @param {string} root */
export function mountPlayed(place, root) {
  const search = h("input", { class: "input", type: "search", placeholder: "Search result, captain, seed…", "aria-label": "Search what was played" });
  const tools = h("div", { class: "played__tools", hidden: true }, search);
  const list = h("div", { class: "played" });
  const older = h("button", { class: "button", type: "button", hidden: true }, "Older");
  const say = h("p", { class: "empty", role: "status" }, "Looking…");
  replace(place, tools, list, say, h("div", { class: "dialog__row" }, older));
  /** @type {any[]} */
  let episodes = [];
  /** @type {string | null} */
  let next = null;
  let broken = false;

  const draw = () => {
    const asked = search.value.trim().toLowerCase();
    const shown = episodes.filter((episode) => haystack(episode).includes(asked));
    keyed(list, shown, (episode) => episode.episode_id, (episode) => row(episode, root),
      (element, episode) => setText(element.querySelector(".game__when"), ago(episode.started_at, Date.now())));
    tools.hidden = episodes.length < 2;
    older.hidden = next === null || broken;
    say.hidden = shown.length > 0 && !broken;
    if (!broken) setText(say, episodes.length ? "Nothing that was played matches the search." : "Nothing has been played yet. What ends here is kept, and can be replayed to the last event.");
  };
  const load = async (/** @type {string | null} */ before) => {
    const answer = await get(root, `api/episodes?ended=true&limit=${PAGE}${before ? `&before=${encodeURIComponent(before)}` : ""}`);
    broken = !answer.ok;
    if (answer.ok) {
      episodes = before ? [...episodes, ...answer.body.episodes] : answer.body.episodes;
      next = answer.body.next ?? null;
    } else setText(say, `What was played could not be read. ${answer.message}`);
    draw();
  };
  search.addEventListener("input", draw);
  older.addEventListener("click", () => load(next));
  return { reload: () => load(null), failed: () => broken };
}

/** @param {any} episode */
function haystack(episode) {
  return [episode.result, episode.reason, episode.captain_label, episode.captain, episode.opponent, episode.pack, episode.seed, episode.title, episode.episode_id]
    .join(" ").toLowerCase();
}

/** @param {any} episode @param {string} root */
function row(episode, root) {
  const id = encodeURIComponent(episode.episode_id);
  const finished = episode.reason === "finished";
  const against = episode.opponent ? ` against ${words(episode.opponent)}` : "";
  const result = finished ? plain(episode.result) || "Finished" : `${endWords(episode.reason)} after ${episode.turns ?? 0} turns`;
  return h("article", { class: finished ? "game" : "game game--cut" },
    h("a", { class: "game__result", href: new URL(`watch/${id}`, root).href }, h("bdi", {}, clip(result, 120))),
    h("span", { class: "game__who" }, h("bdi", {}, clip(plain(episode.captain_label), 60)), h("bdi", {}, clip(against, 60)), h("br"), h("small", {}, h("bdi", {}, clip(plain(episode.title), 40)), " · seed ", h("span", { class: "game__seed" }, episode.seed))),
    h("time", { class: "game__when", datetime: episode.started_at }, ago(episode.started_at, Date.now())),
    h("span", { class: "game__score", title: "The captain’s score, from 0 to 1" }, ...(episode.score === null ? [] : [h("b", {}, episode.score.toFixed(2)), " score"])),
    h("a", { class: "button game__go", href: new URL(`replay/${id}`, root).href, "aria-label": `Replay: ${clip(result, 80)}` }, "Replay"));
}
