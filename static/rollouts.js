// @ts-check
// The list of the runs that this server watches.

import { get } from "./live/api.js";
import { byId, h, keyed, pageRoot, replace, setText } from "./ui/dom.js";
import { rewardWords } from "./ui/run_words.js";
import { ago, clip, plain, plural } from "./ui/text.js";

const POLL_MS = 5_000;

const root = pageRoot();
const empty = byId("empty");
const list = byId("runs");

/** @param {any} run */
function parts(run) {
  const what = [run.environment, run.model].filter(Boolean).map((text) => clip(plain(text), 80)).join(" · ");
  const total = run.episodes ?? 0;
  const counted = run.over === null ? "" : total ? `${run.over} of ${plural(total, "episode")} finished` : `${plural(run.over, "episode")} finished`;
  const reward = rewardWords(run, run.verdicts).map((words) => words.join(" "));
  const when = run.moved_at ? `updated ${ago(run.moved_at, Date.now())}` : "";
  return [h("span", { class: "runcard__name" }, h("bdi", {}, clip(plain(run.name), 64))),
    run.problem ? h("span", { class: "notice notice--bad" }, clip(plain(run.problem), 300)) : h("span", { class: "runcard__what" }, h("bdi", {}, what)),
    total ? h("progress", { max: total, value: run.over ?? 0, "aria-label": counted }) : null,
    h("span", { class: "runcard__figures" }, [counted, run.playing ? `${run.playing} running` : "", ...reward, when].filter(Boolean).join(" · "))];
}

/** @param {any} run */
const card = (run) => h("a", { class: "card runcard", href: new URL(`rollouts/${encodeURIComponent(run.name)}`, root).href }, ...parts(run));

/** What was drawn of each, so that only what changed is drawn again. @type {Map<string, string>} */
const drawn = new Map();

async function show() {
  const answer = await get(root, "api/rollouts");
  if (!answer.ok) {
    empty.hidden = false;
    setText(empty, answer.message);
    return;
  }
  const { runs, watched } = answer.body;
  keyed(list, runs, (run) => run.name, card, (element, run) => {
    const text = JSON.stringify(run);
    if (drawn.get(run.name) !== text) replace(element, ...parts(run));
    drawn.set(run.name, text);
  });
  setText(byId("count"), runs.length ? plural(runs.length, "run") : "");
  empty.hidden = runs.length > 0;
  replace(empty, watched ? "The folder that this server watches has no run. Start one with " : "This server does not watch runs yet: set SPECTATOR_RUNS_DIR to their folder. Start a run with ",
    h("code", {}, "spectator rollouts run --out runs/first"), "; it appears here automatically.");
}

async function keepUp() {
  if (!document.hidden) await show();
  setTimeout(keepUp, POLL_MS);
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) void show(); });
void keepUp();
