// @ts-check
// The page of one run: progress, rewards, failures, stalled episodes, and every episode.

import { get } from "./live/api.js";
import { WallFeed } from "./live/wall.js";
import { byId, h, keyed, pageRoot, replace, setAttribute, setText } from "./ui/dom.js";
import { readQuery, writeQuery } from "./ui/query.js";
import { makePlot } from "./charts/plot.js";
import { AXES, CHARTS, chartOf, costWords, histogram, missing, settings, settingWords, usualAxis } from "./ui/run_charts.js";
import { makeGroup } from "./ui/run_group.js";
import { chosen, idleWords, ORDERS, progressWords, standingOf } from "./ui/run_words.js";
import { clip, plain, plural, words } from "./ui/text.js";

const TICK_MS = 1_000;
const MOST_DRAWN = 120;
const FEW = 6;
const AGAIN_MS = 5_000;

const root = pageRoot();
const name = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "");
const wanted = readQuery(["text", "standing", "order", "class", "by", "with"]);
const state = byId("state");
const place = { groups: byId("groups"), empty: byId("empty"), say: byId("say") };
/** @type {any} */ let run = { name, groups: {}, slowest: {}, failed: {} };
/** @type {Map<string, ReturnType<typeof makeGroup>>} */ const made = new Map();
/** What each group shows: a change makes a new object. @type {Map<string, any>} */ const drawn = new Map();
/** The run that this one is compared with. @type {any} */ let other = null;
/** @type {Record<string, ReturnType<typeof makePlot>>} */ const charts = {};
/** What each chart shows. @type {Record<string, any[]>} */ const charted = {};
let more = MOST_DRAWN;
let allFailed = false;
let scheduled = false;
/** @type {import("./live/wall.js").Phase} */ let phase = "connecting";

setText(byId("crumb"), clip(name, 40));
setText(byId("title"), clip(name, 64));

const text = h("input", { class: "input", type: "search", placeholder: "Group or episode…", "aria-label": "Search groups and episodes", value: wanted.text });
const standing = h("select", { class: "input", "aria-label": "Which groups" }, ...[["", "every group"], ["open", "still open"], ["complete", "complete"], ["partial", "some episodes failed"], ["void", "all episodes failed"], ["same", "all rewards equal"]]
  .map(([value, label]) => h("option", { value, selected: value === wanted.standing }, label)));
const order = h("select", { class: "input", "aria-label": "Order" }, ...Object.entries(ORDERS).map(([value, label]) => h("option", { value, selected: value === wanted.order }, label)));
replace(byId("tools"), text, standing, order);

const axis = h("select", { class: "input", "aria-label": "Axis of the charts" });
const rival = h("select", { class: "input", "aria-label": "Compare with" }, h("option", { value: "" }, "no other run"), wanted.with ? h("option", { value: wanted.with, selected: true }, clip(plain(wanted.with), 64)) : null);
replace(byId("axes"), h("label", { class: "run__pick" }, "Along ", axis), h("label", { class: "run__pick" }, "Compare with ", rival));

const feed = new WallFeed({
  root,
  what: { live: `live/rollouts/${encodeURIComponent(name)}`, poll: `api/rollouts/${encodeURIComponent(name)}`, frame: "run", field: "run" },
  onTiles(told) { run = { groups: {}, slowest: {}, failed: {}, ...told }; schedule(); },
  onPhase(next) { phase = next; drawState(); },
});

function drawState() {
  const over = run.episodes && run.over >= run.episodes && (phase === "open" || phase === "polling");
  setText(state, over ? "Finished" : { connecting: "Connecting", open: "Live", polling: "Polling", away: "Offline" }[phase]);
  setAttribute(state, "data-tone", over ? "over" : phase === "open" || phase === "polling" ? "live" : phase === "away" ? "bad" : "wait");
}

function schedule() {
  if (scheduled || document.hidden) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

function draw() {
  scheduled = false;
  tell(run.problem ? `${clip(plain(run.problem), 300)} Showing the last data read.` : "");
  setText(byId("what"), [run.title, run.environment, run.model, run.group_size > 1 ? `groups of ${run.group_size}` : ""].filter(Boolean).map((one) => clip(plain(one), 80)).join(" · "));
  const bar = byId("bar");
  setAttribute(bar, "max", Math.max(1, run.episodes ?? run.begun ?? 1));
  bar.value = run.over ?? 0;
  drawCharts();
  drawFailed();
  drawGroups();
  drawState();
  tick();
  byId("main").classList.remove("waiting");
}

/** The axis of the charts. @returns {keyof typeof AXES} */
const along = () => (wanted.by in AXES ? /** @type {keyof typeof AXES} */ (wanted.by) : usualAxis(run.series));

function drawCharts() {
  keyed(axis, Object.entries(AXES), ([key]) => key, ([key, said]) => h("option", { value: key }, said));
  for (const one of axis.options) one.disabled = !run.series?.[one.value];
  axis.value = along();
  const runs = [{ name, series: run.series }, ...(other ? [{ name: other.name, series: other.series }] : [])];
  for (const [key, { title, tall }] of Object.entries(CHARTS)) draws(key, title, [run.series, other?.series, along()], () => chartOf(key, runs, along()), tall);
  const own = other ? ` of ${name}` : "";
  draws("rewards", `Rewards${own}`, [run.rewards], () => histogram(run.rewards, "reward", "earned", "No reward yet."));
  draws("lengths", `Lengths in turns${own}`, [run.lengths], () => histogram(run.lengths, "turns", "took", "No episode has finished yet."));
  draws("written", `Lengths in reply tokens${own}`, [run.tokens], () => histogram(run.tokens, "reply tokens", "took", "The endpoint reported no tokens."));
  const lacks = other && !other.series?.[along()] ? [`${clip(plain(other.name), 64)} has no weight versions; choose finished episodes to compare.`] : [];
  const said = [...(other?.problem ? [clip(plain(other.problem), 300)] : []), ...lacks, ...missing(run)].join(" ");
  setText(byId("missing"), said);
  byId("missing").hidden = !said;
  drawSettings();
}

/** Draw a chart if what it shows has changed. @param {string} key @param {string} title @param {any[]} shown @param {() => import("./charts/plot.js").PlotSpec} spec @param {boolean} [tall] */
function draws(key, title, shown, spec, tall = false) {
  if (charted[key] && charts[key] && [title, ...shown].every((one, index) => one === charted[key][index])) return;
  if (!charts[key]) {
    charts[key] = makePlot(title, tall ? 260 : 168);
    if (tall) charts[key].element.classList.add("plotted--tall");
    byId("charts").append(charts[key].element);
  }
  charted[key] = [title, ...shown];
  charts[key].update(spec(), title);
}

/** The configuration, beside the other run's. */
function drawSettings() {
  const mine = new Map(settings(run.configuration));
  const theirs = new Map(settings(other?.configuration));
  const names = [...new Set([...mine.keys(), ...theirs.keys()])];
  byId("settings").hidden = !names.length;
  const cell = (/** @type {string | undefined} */ value) => h("td", {}, h("bdi", {}, value === undefined ? "not stated" : clip(plain(value), 200)));
  const rows = names.map((key) => {
    const differs = other && mine.get(key) !== theirs.get(key);
    return h("tr", { data: { differs: differs ? "yes" : null } }, h("th", { scope: "row" }, h("bdi", {}, key.split(".").map(words).join(": "))), cell(mine.get(key)), ...(other ? [cell(theirs.get(key)), h("td", {}, differs ? "differs" : "same")] : []));
  });
  const head = other ? h("thead", {}, h("tr", {}, ...["setting", name, other.name, "compared"].map((one) => h("th", { scope: "col" }, h("bdi", {}, clip(plain(one), 40)))))) : null;
  const apart = rows.filter((row) => row.dataset.differs).length;
  setText(byId("settings-said"), other ? `${apart ? `${plural(apart, "setting")} ${apart === 1 ? "differs" : "differ"} from` : "the same as"} ${clip(plain(other.name), 64)}` : clip(plain(settingWords(run.configuration)), 200));
  replace(byId("set"), head, h("tbody", {}, ...rows));
}

/** Read the run to compare with, and again while it is played. */
async function compare() {
  const asked = wanted.with;
  if (!asked) {
    other = null;
    return draw();
  }
  const answer = await get(root, `api/rollouts/${encodeURIComponent(asked)}/series`);
  if (asked !== wanted.with) return;
  const same = other?.name === asked;
  if (!answer.ok) other = same ? { ...other, problem: answer.message } : { name: asked, series: {}, configuration: {}, problem: answer.message };
  else if (!same || JSON.stringify(other) !== JSON.stringify(answer.body)) other = answer.body;
  draw();
  if (other.playing || other.uncounted) setTimeout(() => { if (asked === wanted.with) void compare(); }, AGAIN_MS);
}

/** Fill the list of runs to compare with. */
async function listRivals() {
  const answer = await get(root, "api/rollouts");
  if (!answer.ok) return;
  const names = answer.body.runs.map((/** @type {any} */ one) => one.name).filter((/** @type {string} */ one) => one !== name);
  if (wanted.with && !names.includes(wanted.with)) names.push(wanted.with);
  replace(rival, h("option", { value: "" }, "no other run"), ...names.map((/** @type {string} */ one) => h("option", { value: one, selected: one === wanted.with }, clip(plain(one), 64))));
}

/** What counts by itself, between two changes. */
function tick() {
  replace(byId("figures"), ...[...progressWords(run, Date.now()), ...costWords(run)].map(([figure, said]) => h("span", {}, h("b", {}, figure), ` ${said}`)));
  const slowest = Object.entries(run.slowest ?? {}).map(([id, one]) => ({ id, ...one, standing: standingOf(one, run, Date.now()) })).sort((a, b) => Date.parse(a.moved_at) - Date.parse(b.moved_at)).slice(0, FEW);
  setText(byId("usual"), run.usual_turn_s ? `typical turn: ${run.usual_turn_s < 1 ? `${Math.round(run.usual_turn_s * 1000)} ms` : `${run.usual_turn_s.toFixed(1)} s`}` : "");
  keyed(byId("slowest"), slowest.length ? slowest : [{ id: "", standing: "", moved_at: "" }], (one) => one.id, (one) => fillSlow(h("li"), one), fillSlow);
}

/** @param {HTMLElement} element @param {any} one */
function fillSlow(element, one) {
  if (!one.id) {
    if (!element.textContent) element.append("No episode is running.");
    return element;
  }
  const why = `waiting for ${one.waits_for}, turn ${one.turns}${one.attempt > 1 ? `, attempt ${one.attempt}` : ""}${one.group ? `, ${clip(plain(one.group), 40)}` : ""}`;
  if (!element.firstElementChild) element.append(link(one.id), h("span", { class: "run__why" }), h("span", { class: "run__when" }, h("span", { class: "badge" }), " ", h("span")));
  const [, said, when] = element.children;
  setText(said, why);
  setText(when.firstElementChild, one.standing);
  setAttribute(/** @type {Element} */ (when.firstElementChild), "data-tone", one.standing);
  setText(when.lastElementChild, idleWords(one.moved_at, Date.now()));
  return element;
}

/** @param {string} id */
const link = (id) => h("a", { href: new URL(`watch/${encodeURIComponent(id)}`, root).href }, `…${clip(plain(id).slice(-8), 12)}`);

function drawFailed() {
  const classes = Object.entries(run.failures ?? {}).sort((a, b) => b[1] - a[1]);
  keyed(byId("classes"), classes, ([key]) => key, ([key]) => h("button", { class: "chip", type: "button", on: { click: () => choose({ class: wanted.class === key ? "" : key }) } }), () => undefined);
  for (const [key, count] of classes) {
    const chip = [...byId("classes").children].find((one) => one.dataset.key === key);
    setText(chip, `${words(key)} ${count}`);
    setAttribute(chip, "aria-pressed", String(wanted.class === key));
  }
  const every = Object.entries(run.failed ?? {}).filter(([, one]) => !wanted.class || one.class === wanted.class).reverse();
  const failed = allFailed ? every : every.slice(0, FEW);
  const rest = byId("rest");
  rest.hidden = every.length <= FEW;
  setText(rest, allFailed ? "Show fewer" : `Show the newest ${every.length}`);
  keyed(byId("failed"), failed.length ? failed : [["", null]], ([id]) => id, ([id, one]) => (one === null ? h("li", {}, "No attempt has failed.")
    : h("li", {}, link(id), h("span", { class: "run__why" }, h("bdi", {}, `${words(one.class)}: ${clip(plain(one.detail), 200)}`)), h("span", { class: "run__when" }, `attempt ${one.attempt}, ${one.again ? "retried" : "final"}`))));
}

function drawGroups() {
  const found = chosen(run.groups ?? {}, wanted);
  const shown = found.slice(0, more);
  keyed(place.groups, shown, ([key]) => `g:${key}`, ([key]) => {
    const group = makeGroup(key, name, root);
    made.set(key, group);
    drawn.delete(key);
    return group.element;
  });
  const keys = new Set(shown.map(([key]) => key));
  for (const key of made.keys()) if (!keys.has(key)) { made.delete(key); drawn.delete(key); }
  for (const [key, group] of shown) if (drawn.get(key) !== group) {
    made.get(key)?.update(group);
    drawn.set(key, group);
  }
  const all = Object.keys(run.groups ?? {}).length;
  replace(byId("shown"), found.length === all ? plural(all, "group") : `${found.length} of ${plural(all, "group")}`, found.length > shown.length ? h("button", { class: "more", type: "button", on: { click: () => { more += MOST_DRAWN; draw(); } } }, `show ${Math.min(MOST_DRAWN, found.length - shown.length)} more`) : null);
  place.empty.hidden = found.length > 0;
  setText(place.empty, all ? "No group matches the filter." : "Nothing has been played yet.");
}

/** @param {Record<string, string>} change */
function choose(change) {
  Object.assign(wanted, change);
  writeQuery(wanted);
  draw();
}

/** @param {string} message */
function tell(message) {
  place.say.hidden = message === "";
  setText(place.say, message);
}

byId("rest").addEventListener("click", () => { allFailed = !allFailed; drawFailed(); });
for (const control of [text, standing, order]) control.addEventListener("input", () => choose({ text: text.value, standing: standing.value, order: order.value }));
axis.addEventListener("input", () => choose({ by: axis.value }));
rival.addEventListener("input", () => { choose({ with: rival.value }); void compare(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) { feed.wake(); schedule(); } });
addEventListener("online", () => feed.wake());
addEventListener("pageshow", (event) => event.persisted && feed.wake());
setInterval(() => { if (!document.hidden) tick(); }, TICK_MS);

const answer = await get(root, `api/rollouts/${encodeURIComponent(name)}`);
if (answer.ok) {
  run = { ...run, ...answer.body.run };
  draw();
  if (wanted.with) await compare();
  feed.open();
  void listRivals();
} else {
  tell(answer.message);
  setText(state, "Unavailable");
  setAttribute(state, "data-tone", "bad");
}
