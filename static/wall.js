// @ts-check
// The wall: every running episode as a live tile, and one of them large.

import { choose, ORDERS } from "./live/sight.js";
import { WallFeed } from "./live/wall.js";
import { byId, h, keyed, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { mountLargeTile } from "./ui/large_tile.js";
import { makeTile } from "./ui/tile.js";
import { clip, plain, plural, words } from "./ui/text.js";
import { readQuery, writeQuery } from "./ui/query.js";

/** The value of `large` in the address for no large episode. */
const NONE = "none";
const REORDER_MS = 2_000;

byId("scriptless").remove();
const root = pageRoot();
const state = byId("state");
const grid = byId("tiles");
const empty = byId("empty");
const count = byId("count");
const tv = byId("tv");
const wanted = readQuery(["text", "environment", "order", "large"]);

const text = h("input", { class: "input", type: "search", placeholder: "Team, captain, seed…", "aria-label": "Search live episodes", value: wanted.text });
const environment = h("select", { class: "input", "aria-label": "World" });
const order = h("select", { class: "input", "aria-label": "Order" }, ...Object.entries(ORDERS).map(([value, label]) =>
  h("option", { value, selected: value === wanted.order }, label)));
const large = h("select", { class: "input", "aria-label": "Featured episode" });
replace(byId("tools"), text, environment, order, large);
const why = h("span", { role: "status" });
const stay = h("button", { class: "button", type: "button", "aria-pressed": "false", on: { click: () => showLarge(wanted.large ? "" : looked.id) } }, "Stay with this one");
const place = h("div", { class: "tile-room" });
replace(tv, h("div", { class: "wall__large" }, why, stay), place);

/** @type {Map<string, ReturnType<typeof makeTile>>} */
const made = new Map();
const looked = mountLargeTile(place, root);
/** What each tile shows: a change makes a new object. @type {Map<string, any>} */
const drawn = new Map();
/** @type {string[]} */
let places = [];
let placedAt = -Infinity;
let scheduled = false;
/** @type {"connecting" | "open" | "polling" | "away"} */ let reached = "connecting";

const feed = new WallFeed({
  root,
  onTiles: () => schedule(),
  onPhase(phase) {
    if (phase === "away" || phase === "polling") byId("main").classList.remove("waiting");
    reached = phase;
    tell();
    if (phase === "away") setText(empty, "The server cannot be reached. This page keeps trying.");
  },
});

/** The header: whether the server answers and, if so, whether an episode is live. */
function tell() {
  const on = Object.values(feed.tiles).some((tile) => tile.status !== "ended");
  const words_ = { connecting: "Connecting", open: on ? "On air" : "Ready", polling: "Polling", away: "Offline" };
  setText(state, words_[reached]);
  setAttribute(state, "data-tone", { connecting: "wait", open: on ? "live" : null, polling: "live", away: "bad" }[reached]);
}

function schedule() {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

function draw() {
  scheduled = false;
  const { tiles } = feed;
  tell();
  drawWorlds(tiles);
  const found = choose(tiles, wanted);
  const now = performance.now();
  const known = new Set(places);
  if (now - placedAt > REORDER_MS || found.length !== places.length || found.some(([id]) => !known.has(id))) {
    placedAt = now;
    arrange(found.map(([id]) => id));
  }
  for (const id of places) if (drawn.get(id) !== tiles[id]) {
    made.get(id)?.update(tiles[id]);
    drawn.set(id, tiles[id]);
  }
  drawChoices(found);
  drawLarge(found, tiles, now);
  byId("main").classList.remove("waiting");
  const running = found.filter(([, tile]) => tile.status !== "ended").length;
  setText(count, `${plural(running, "episode")} live${found.length > running ? `, ${found.length - running} just ended` : ""}`);
  const all = Object.keys(tiles).length;
  replace(empty, ...(all ? ["No live episode matches. ", h("a", { href: new URL("wall", root).href }, "Show everything")]
    : ["Nothing is live. ", h("a", { href: `${root}#start` }, "Start one in the lobby"), "; it appears here automatically."]));
  empty.hidden = found.length > 0;
}

/** Put the tiles of `ids` in this order; those that stand right are not touched. @param {string[]} ids */
function arrange(ids) {
  if (ids.length === places.length && ids.every((id, index) => id === places[index])) return;
  places = ids;
  keyed(grid, places, (id) => id, (id) => {
    const tile = makeTile(id, root);
    made.set(id, tile);
    drawn.delete(id);
    return tile.element;
  });
  const shown = new Set(ids);
  for (const id of made.keys()) if (!shown.has(id)) { made.delete(id); drawn.delete(id); }
}

/** @param {[string, any][]} found @param {Record<string, any>} tiles @param {number} now */
function drawLarge(found, tiles, now) {
  const said = looked.draw(tiles, wanted.large === NONE || (found.length < 2 && !wanted.large) ? [] : found, now, wanted.large);
  tv.hidden = said === "";
  if (tv.hidden) return;
  setText(why, `Featured because ${said}`);
  setAttribute(stay, "aria-pressed", String(wanted.large === looked.id));
}

/** @param {[string, any][]} found those that may be chosen to be large */
function drawChoices(found) {
  const names = found.map(([id]) => id).sort();
  const key = `${names.join()} ${wanted.large}`;
  if (large.dataset.names === key || large === document.activeElement && wanted.large === large.value) return;
  large.dataset.names = key;
  replace(large, ...[["", "featured: auto"], [NONE, "none featured"], ...found.map(([id, tile]) => [id, clip(`${(tile.seats ?? []).map(plain).join(" v ")} · seed ${tile.seed}`, 60)])]
    .map(([value, label]) => h("option", { value, selected: value === wanted.large }, label)));
}

/** @param {string} choice an episode, `NONE`, or nothing for the director's */
function showLarge(choice) {
  wanted.large = choice;
  writeQuery(wanted);
  large.value = choice;
  schedule();
}
large.addEventListener("change", () => showLarge(large.value));

/** @param {Record<string, any>} tiles */
function drawWorlds(tiles) {
  const names = [...new Set([...Object.values(tiles).map((tile) => tile.environment), ...(wanted.environment ? [wanted.environment] : [])])].sort();
  if (environment.dataset.names === names.join()) return;
  environment.dataset.names = names.join();
  replace(environment, h("option", { value: "" }, "every world"), ...names.map((name) =>
    h("option", { value: name, selected: name === wanted.environment }, clip(plain(words(name)), 30))));
  environment.hidden = names.length < 2;
}

for (const control of [text, environment, order]) control.addEventListener("input", () => {
  Object.assign(wanted, { text: text.value, environment: environment.value, order: order.value === "newest" ? "" : order.value });
  writeQuery(wanted);
  placedAt = -Infinity;
  schedule();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) { feed.wake(); schedule(); } });
addEventListener("online", () => feed.wake());
addEventListener("pageshow", (event) => event.persisted && feed.wake());
setInterval(schedule, REORDER_MS);
feed.open();
