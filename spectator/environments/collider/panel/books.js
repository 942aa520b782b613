// @ts-check
// Machine, trigger, runs and calibration: what the data were taken with.

import { channelMark, figure, measured } from "./words.js";

/** @param {any} ctx */
export function mountBooks({ ui: { h, replace } }) {
  const body = h("div", { class: "books__body" });
  const element = h("section", { class: "card books", "aria-label": "Machine and data" }, h("header", { class: "card__head" }, h("h2", {}, "Machine and data")), body);
  /** @type {unknown[]} */ let drawn = [];

  /** @param {string} caption @param {string[]} head @param {(string | number)[][]} rows */
  const table = (caption, head, rows) => h("table", { class: "books__table" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell, index) => (index ? h("td", {}, cell) : h("th", { scope: "row" }, cell)))))));

  return {
    element,
    /** @param {any} world */
    update(world) {
      const parts = [world.machine, world.trigger, world.runs, world.calibration];
      if (parts.every((part, index) => part === drawn[index]) && drawn.length) return;
      drawn = parts;
      const { machine, trigger } = world;
      const runs = Object.values(world.runs ?? {});
      const scales = Object.values(world.calibration ?? {});
      replace(body,
        machine ? h("p", {}, h("b", {}, `${figure(machine.sqrt_s_tev)} TeV`), `, ${figure(machine.cost_musd_per_fb)} MUSD and ${figure(machine.days_per_fb)} days for each fb⁻¹, ${figure(machine.pileup)} collisions at once`) : h("p", { class: "quiet" }, "The machine is not configured yet."),
        trigger ? table(`Trigger, ${figure(100 * trigger.live_fraction)} % of it read out`, ["channel", "from, GeV", "Hz"], Object.entries(trigger.thresholds_gev).map(([name, cut]) => [channelMark(name), figure(cut), figure(trigger.rates_hz?.[name])])) : null,
        runs.length ? table("Runs", ["run", "TeV", "fb⁻¹", "visible events"], runs.map((/** @type {any} */ run) => [run.run, figure(run.sqrt_s_tev), figure(run.luminosity_collected_fb), Object.values(run.events).reduce((total, count) => Number(total) + Number(count), 0).toLocaleString("en")])) : null,
        scales.length ? table("Calibration: measured over true", ["peak", "scale", "resolution"], scales.map((/** @type {any} */ one) => [one.candle, measured(one.scale, one.scale_error), measured(one.resolution_factor, one.resolution_factor_error)])) : null);
    },
  };
}
