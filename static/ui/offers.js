// @ts-check
// Episodes to compare with: without any, the newest; with one, others of its world, those on its seed first.

import { get } from "../live/api.js";
import { h, replace } from "./dom.js";
import { ago, clip, plain } from "./text.js";

/** Most episodes in a list. */
const MOST = 12;

/** Episodes that were played to their end, newest first. @param {string} root @param {string} [filter] @returns {Promise<any[]>} */
const played = async (root, filter = "") => (await get(root, `api/episodes?reason=finished&limit=50${filter}`)).body?.episodes ?? [];

/** @param {string} root @param {string} id the one to compare; empty for none @param {HTMLElement} place @param {(text: string, bad?: boolean) => void} tell */
export async function offerEpisodes(root, id, place, tell) {
  if (!id) {
    tell("Pick two past episodes in the lobby’s list: tick two of the same world, then press Compare. Or begin here with one of the newest.", false);
    return replace(place, list("The newest episodes", await played(root), (one) => `compare?a=${encodeURIComponent(one.episode_id)}`, root));
  }
  const mine = await get(root, `api/episodes/${encodeURIComponent(id)}`);
  if (!mine.ok) return tell(mine.status === 404 ? `This server has no episode ${plain(id)}.` : mine.message);
  const { captain_label: label, seed } = mine.body;
  const others = await othersOf(root, mine.body);
  const same = others.filter((one) => one.seed === seed);
  tell(same.length ? `Compare ${plain(label)}, seed ${seed}, with another on the same seed:` : `No other episode has seed ${seed} yet. Start one in the lobby, or open this one and play on from any moment with another captain.`, false);
  replace(place, ...[["On the same seed", same], ["On other seeds", others.filter((one) => one.seed !== seed)]]
    .map(([title, found]) => found.length && list(String(title), /** @type {any[]} */ (found), (one) => pair(id, one), root)));
}

/** What one episode can be compared with. @param {string} root @param {any} mine */
export const partnersOf = async (root, mine) => list(`Compare ${who(mine)} with`, await othersOf(root, mine), (one) => pair(mine.episode_id, one), root);

/** Others of its world, those on its seed first. @param {string} root @param {any} mine @returns {Promise<any[]>} */
async function othersOf(root, { environment, seed, episode_id: own }) {
  const world = `&environment=${encodeURIComponent(environment)}`;
  const [same, all] = await Promise.all([played(root, `${world}&seed=${encodeURIComponent(seed)}`), played(root, world)]);
  return [...same, ...all.filter((one) => one.seed !== seed)].filter((one) => one.episode_id !== own);
}

const pair = (/** @type {string} */ id, /** @type {any} */ one) => `compare?a=${encodeURIComponent(id)}&b=${encodeURIComponent(one.episode_id)}`;
const who = (/** @type {any} */ one) => `${plain(one.captain_label)}${one.opponent ? ` against ${plain(one.opponent_label)}` : ""}`;

/** @param {string} title @param {any[]} found @param {(one: any) => string} path @param {string} root */
function list(title, found, path, root) {
  return h("section", { class: "card offers" }, h("h2", {}, h("bdi", {}, clip(title, 100))), found.length ? h("ul", {}, ...found.slice(0, MOST).map((one) => h("li", {},
    h("a", { href: new URL(path(one), root).href }, clip(who(one), 80)),
    h("small", {}, h("bdi", {}, clip(plain(one.result ?? "no result"), 120)), ` · ${plain(one.title)} · seed ${one.seed} · ${ago(one.started_at, Date.now())}`))))
    : h("p", { class: "quiet" }, "No other episode of this world is finished yet. Start one in the lobby."));
}
