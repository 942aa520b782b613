// @ts-check
// The lobby: what is on, the form that starts another, what was played.

import { get } from "./live/api.js";
import { WallFeed } from "./live/wall.js";
import { byId, pageRoot, setAttribute, setText } from "./ui/dom.js";
import { mountOnNow } from "./ui/on_now.js";
import { mountPlayed } from "./ui/played.js";
import { mountQuickStart } from "./ui/quick_start.js";
import { mountStartForm } from "./ui/start_form.js";

const EVERY_MS = 4_000;
/** How long to wait for live episodes before the page is shown without them. */
const PATIENCE_MS = 1_500;
/** How long after an end its result is in the table. */
const READ_MS = 2_000;

const root = pageRoot();
const state = byId("state");
const onNow = mountOnNow(byId("on"), byId("large"), root);
const feed = new WallFeed({ root, onTiles, onPhase() { /* the header says whether the server is there */ } });
const played = mountPlayed(byId("played"), root);
const form = mountStartForm(byId("start"), root, played.offer);
mountQuickStart(byId("go"), root);
let known = "";
let away = false;
let onAir = "";
/** @type {() => void} */ let seeTiles = () => {};
const tilesSeen = new Promise((resolve) => { seeTiles = () => resolve(undefined); });

/** The header follows the tiles below it; only the server's state is requested. */
function tell() {
  setText(state, away ? "Offline" : onAir ? "On air" : "Ready");
  setAttribute(state, "data-tone", away ? "bad" : onAir ? "live" : null);
}

/** @param {Record<string, import("./live/wall.js").Tile>} tiles */
function onTiles(tiles) {
  onNow.show(tiles);
  seeTiles();
  const now = Object.keys(tiles).filter((id) => tiles[id].status !== "ended").sort().join();
  if (now === onAir) return;
  onAir = now;
  tell();
  void refresh();
}

async function refresh() {
  if (document.hidden) return;
  const status = await get(root, "custom/status");
  away = !status.ok;
  tell();
  onNow.update(status);
  if (!status.ok) return;
  const running = [...status.body.running, ...status.body.shown].map((/** @type {any} */ one) => one.episode_id).join();
  if (running !== known || played.failed()) await played.reload();
  if (running !== known && !byId("main").classList.contains("waiting")) setTimeout(refreshLeague, READ_MS);
  known = running;
  if (form.failed()) await form.load();
}

/** The league as the server draws it now. Parsed by the browser as a document, in which no script runs. */
function refreshLeague() {
  const place = document.getElementById("league");
  if (!place) return;
  const request = new XMLHttpRequest();
  request.responseType = "document";
  request.onload = () => {
    const drawn = request.response?.getElementById("league");
    if (drawn) place.replaceChildren(...drawn.childNodes);
  };
  request.open("GET", root);
  request.send();
}

/** One round after another, never two at once. */
async function keepFresh() {
  await refresh();
  setTimeout(keepFresh, EVERY_MS);
}

/** The viewer is back: refresh at once. */
function wake() {
  feed.wake();
  void refresh();
}

document.addEventListener("visibilitychange", () => !document.hidden && wake());
addEventListener("online", wake);
addEventListener("pageshow", (event) => event.persisted && wake());
feed.open();
setTimeout(seeTiles, PATIENCE_MS);
await Promise.all([form.load(), played.reload(), keepFresh(), tilesSeen]);
requestAnimationFrame(() => byId("main").classList.remove("waiting"));
