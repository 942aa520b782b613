// @ts-check
// The charts on the page of a run, along an axis, alone or compared with another run, and its configuration.

import { makePlot } from "../charts/plot.js";
import { get } from "../live/api.js";
import { byId, h, keyed, replace, setText } from "./dom.js";
import { AXES, CHARTS, chartOf, histogram, missing, settings, settingWords, usualAxis } from "./run_charts.js";
import { clip, plain, plural, words } from "./text.js";

const AGAIN_MS = 5_000;
const NAME = 64;

/**
 * @param {string} root @param {string} name of the run @param {Record<string, string>} wanted of the address: `by`, the axis, and `with`, the other run @param {() => void} changed called after a change of `wanted`
 * @returns {{update: (run: any) => void}}
 */
export function mountCharts(root, name, wanted, changed) {
  /** @type {any} */ let run = { name };
  /** The run that this one is compared with. @type {any} */ let other = null;
  /** @type {Record<string, ReturnType<typeof makePlot>>} */ const plots = {};
  /** What each chart shows. @type {Record<string, any[]>} */ const drawn = {};
  const axis = h("select", { class: "input", "aria-label": "Axis of the charts" }, ...Object.entries(AXES).map(([key, said]) => h("option", { value: key }, said)));
  const rival = h("select", { class: "input", "aria-label": "Compare with" });
  replace(byId("axes"), h("label", { class: "run__pick" }, "Along ", axis), h("label", { class: "run__pick" }, "Compare with ", rival));
  fillRivals([]);

  /** @returns {keyof typeof AXES} */
  const along = () => (wanted.by in AXES ? /** @type {keyof typeof AXES} */ (wanted.by) : usualAxis(run.series));

  function draw() {
    for (const one of axis.options) one.disabled = !run.series?.[one.value];
    axis.value = along();
    const runs = [{ name, series: run.series }, ...(other ? [{ name: other.name, series: other.series }] : [])];
    for (const [key, { title, tall }] of Object.entries(CHARTS)) plot(key, title, [run.series, other?.series, along()], () => chartOf(key, runs, along()), tall);
    const own = other ? ` of ${name}` : "";
    plot("rewards", `Rewards${own}`, [run.rewards], () => histogram(run.rewards, "reward", "earned", "No reward yet."));
    plot("lengths", `Lengths in turns${own}`, [run.lengths], () => histogram(run.lengths, "turns", "took", "No episode has finished yet."));
    plot("written", `Lengths in reply tokens${own}`, [run.tokens], () => histogram(run.tokens, "reply tokens", "took", "The endpoint reported no tokens."));
    const lacks = other?.configuration && !other.problem && !other.series?.[along()] ? [`${clip(plain(other.name), NAME)} has no weight versions; choose finished episodes to compare.`] : [];
    const said = [...(other?.problem ? [clip(plain(other.problem), 300)] : []), ...lacks, ...missing(run)].join(" ");
    setText(byId("missing"), said);
    byId("missing").hidden = !said;
    drawSettings();
  }

  /** Draw a chart if what it shows has changed. @param {string} key @param {string} title @param {any[]} shown @param {() => import("../charts/plot.js").PlotSpec} spec @param {boolean} [tall] */
  function plot(key, title, shown, spec, tall = false) {
    if (drawn[key] && [title, ...shown].every((one, index) => one === drawn[key][index])) return;
    if (!plots[key]) {
      plots[key] = makePlot(title, tall ? 260 : 168);
      if (tall) plots[key].element.classList.add("plotted--tall");
      byId("charts").append(plots[key].element);
    }
    drawn[key] = [title, ...shown];
    plots[key].update(spec(), title);
  }

  /** The configuration, beside the other run's. */
  function drawSettings() {
    const [mine, theirs] = [new Map(settings(run.configuration)), new Map(settings(other?.configuration))];
    const names = [...new Set([...mine.keys(), ...theirs.keys()])];
    byId("settings").hidden = !names.length;
    const cell = (/** @type {string | undefined} */ value) => h("td", {}, h("bdi", {}, value === undefined ? "not stated" : clip(plain(value), 200)));
    const differs = (/** @type {string} */ key) => other && mine.get(key) !== theirs.get(key);
    const apart = names.filter(differs).length;
    const compared = `${apart ? `${plural(apart, "setting")} ${apart === 1 ? "differs" : "differ"} from` : "the same as"} ${clip(plain(other?.name), NAME)}`;
    setText(byId("settings-said"), other ? compared : clip(plain(settingWords(run.configuration)), 200));
    const head = other ? h("thead", {}, h("tr", {}, ...["setting", name, other.name, "compared"].map((one) => h("th", { scope: "col" }, h("bdi", {}, clip(plain(one), 40)))))) : null;
    replace(byId("set"), head, h("tbody", {}, ...names.map((key) => h("tr", { data: { differs: differs(key) ? "yes" : null } },
      h("th", { scope: "row" }, h("bdi", {}, key.split(".").map(words).join(": "))), cell(mine.get(key)), ...(other ? [cell(theirs.get(key)), h("td", {}, differs(key) ? "differs" : "same")] : [])))));
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
    if (!answer.ok) other = { ...(same ? other : { name: asked }), problem: answer.message };
    else if (!same || JSON.stringify(other) !== JSON.stringify(answer.body)) other = answer.body;
    draw();
    if (other.playing || other.uncounted) setTimeout(() => { if (asked === wanted.with) void compare(); }, AGAIN_MS);
  }

  /** @param {string[]} names of the runs to compare with */
  function fillRivals(names) {
    const every = [...new Set(["", ...names.filter((one) => one !== name), wanted.with])];
    keyed(rival, every, (one) => one, (one) => h("option", { value: one }, one ? clip(plain(one), NAME) : "no other run"));
    rival.value = wanted.with;
  }

  axis.addEventListener("input", () => {
    wanted.by = axis.value;
    changed();
    draw();
  });
  rival.addEventListener("input", () => {
    wanted.with = rival.value;
    changed();
    void compare();
  });
  void get(root, "api/rollouts").then((answer) => { if (answer.ok) fillRivals(answer.body.runs.map((/** @type {any} */ one) => one.name)); });
  if (wanted.with) void compare();
  return {
    update(next) {
      run = next;
      draw();
    },
  };
}
