// @ts-check
// The mass spectrum: what was counted, what is hidden, the fit, and the residuals below.

import { binsOf, mergedValues, poissonInterval, pull, residuals, roundTicks, scaled, verticalScale } from "./histogram.js";
import { channelMark, channelName, figure, measured } from "./words.js";

const WIDTH = 720;
const HEIGHT = 400;
const LEFT = 94;
const RIGHT = WIDTH - 10;
const BASE = 286;
const MIDDLE = 348;
const SPREAD = 34;

/** @param {HTMLElement} place @param {any} ctx */
export function mountSpectrum(place, { ui: { h, svg, replace, setText }, charts }) {
  /** @type {any} */ let world = {};
  /** @type {string | null} */ let chosen = null;
  /** @type {unknown} */ let drawn = null;
  const title = h("h2", {}, "Mass spectrum");
  const chips = h("span", { class: "tabs" });
  const drawing = svg("svg", { class: "spectrum__drawing", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Mass spectrum; the figures follow as a table" });
  const legend = h("p", { class: "spectrum__legend" });
  const note = h("p", { class: "spectrum__note" });
  const figures = h("div");
  const element = h("section", { class: "card spectrum", "aria-label": "Mass spectrum" }, h("header", { class: "card__head" }, title, chips), drawing, legend, note, figures);
  place.append(element);

  /** @param {string} name */
  function choose(name) {
    chosen = name;
    drawn = null;
    draw();
  }

  function draw() {
    const channels = Object.keys(world.channels ?? {}).filter((name) => world.channels[name].spectrum);
    const name = chosen !== null && channels.includes(chosen) ? chosen : channels.includes(world.focus) ? world.focus : channels.at(-1);
    if (channels.length > 1) replace(chips, ...channels.map((one) => h("button", { class: "chip", type: "button", "aria-pressed": String(one === name), "aria-label": channelName(one), on: { click: () => choose(one) } }, channelMark(one))));
    else replace(chips);
    if (name === undefined) return empty();
    const channel = world.channels[name];
    if (drawn === channel) return;
    drawn = channel;
    drawChannel(name, channel);
  }

  function empty() {
    if (drawn === empty) return;
    drawn = empty;
    replace(drawing, frame(), svg("text", { class: "spectrum__empty", x: (LEFT + RIGHT) / 2, y: BASE / 2, "text-anchor": "middle" }, "No spectrum yet"));
    replace(legend, h("span", { class: "quiet" }, "It appears when the first channel’s mass spectrum is built, with the search window hidden until the selection is frozen."));
    setText(note, "");
    replace(figures);
  }

  const frame = () => svg("path", { class: "spectrum__axis", d: `M${LEFT} 10V${BASE}H${RIGHT}` });

  /** @param {string} name @param {any} channel */
  function drawChannel(name, channel) {
    const { spectrum, background, fit, open, scan } = channel;
    const blinded = open ? [] : spectrum.blinded_gev ?? [];
    const { bins, merged } = binsOf(spectrum.edges_gev, open ? spectrum.counts : spectrum.sidebands ?? spectrum.counts, blinded);
    const x = charts.linear([bins[0].low, bins.at(-1)?.high ?? 1], [LEFT, RIGHT]);
    const expected = open ? mergedValues(scan?.expected ?? [], merged) : background ? scaled(bins, mergedValues(background.expected, merged)) : [];
    const seen = bins.filter((bin) => !bin.hidden).flatMap((bin) => [bin.value, poissonInterval(bin.count)[1] / bin.share]);
    const peak = fit ? fitted(fit, merged) : null;
    const vertical = verticalScale([...seen, ...(peak ? [] : expected)], BASE, 14);
    replace(drawing, frame(), horizontal(vertical.ticks, vertical.y), bottom(bins, x, channelMark(name)),
      svg("text", { class: "spectrum__title", transform: `translate(13 ${(10 + BASE) / 2}) rotate(-90)`, "text-anchor": "middle" }, perBin(bins)),
      blinded.length === 2 ? hidden(blinded, x) : null, open ? windowOf(spectrum.window_gev, x) : null,
      peak ? line("spectrum__background", peak.under.map(([mass, value]) => [x(mass), vertical.y(value)])) : expected.length ? line("spectrum__background", bins.map((bin, index) => [x(centre(bin)), vertical.y(expected[index])])) : null,
      peak ? line("spectrum__fit", peak.points.map(([mass, value]) => [x(mass), vertical.y(value)])) : null,
      ...bins.filter((bin) => !bin.hidden).map((bin) => point(bin, x, vertical.y)), ...below(bins, peak ? peak.background(bins) : expected, peak, x));
    replace(legend, h("span", { class: "spectrum__key" }, open ? `data, ${figure(spectrum.luminosity_fb)} fb⁻¹` : "data beside the window"),
      peak ? h("span", { class: "spectrum__key spectrum__key--background" }, "background of the fit") : expected.length ? h("span", { class: "spectrum__key spectrum__key--background" }, open ? "background, fitted to these data" : `background: ${String(background.function).replaceAll("_", " ")}, p = ${figure(background.p_value, 2)}, from the tuning sample`) : null,
      peak ? h("span", { class: "spectrum__key spectrum__key--fit" }, `fit: ${figure(fit.signal)} ± ${figure(fit.signal_error, 2)} events`) : null,
      blinded.length === 2 ? h("span", { class: "spectrum__key spectrum__key--hidden" }, "blinded") : null,
      merged > 1 ? h("span", { class: "quiet" }, `${merged} bins drawn as one`) : null);
    setText(title, `Mass spectrum, ${channelName(name)}`);
    setText(note, fit?.converged ? `Peak at ${measured(fit.corrected_mass_gev, fit.corrected_error_gev)} GeV, χ² ${figure(fit.chi2)} for ${fit.ndf} degrees of freedom` : open ? expected.length ? "Bars: 68 % Poisson intervals. Below: the distance from the fitted background in standard deviations (signed root of the Poisson deviance)" : "Bars: 68 % Poisson intervals. The scan fits the background to these data" : "The window opens when the selection is frozen");
    replace(figures, charts.figuresTable(`Events by mass, ${channelName(name)}`, ["GeV", "events", "background"], bins.map((bin, index) => [`${figure(bin.low, 5)} to ${figure(bin.high, 5)}`, bin.hidden ? "blinded" : bin.count, expected[index] === undefined ? "–" : figure(expected[index])])));
  }

  /** The fitted curve over the bins that it was fitted to. @param {any} fit @param {number} merged */
  function fitted(fit, merged) {
    const total = mergedValues(fit.expected, merged);
    const under = mergedValues(fit.expected_background, merged);
    const edges = fit.edges_gev.filter((/** @type {number} */ _, /** @type {number} */ index) => index % merged === 0);
    const middle = (/** @type {number} */ index) => (edges[index] + (edges[index + 1] ?? fit.edges_gev.at(-1))) / 2;
    return {
      points: /** @type {[number, number][]} */ (total.map((value, index) => [middle(index), value])),
      pulls: /** @type {[number, number][]} */ (total.map((value, index) => [middle(index), under[index] > 0 ? pull(value, under[index]) : 0])),
      under: /** @type {[number, number][]} */ (under.map((value, index) => [middle(index), value])),
      background: (/** @type {import("./histogram.js").Bin[]} */ bins) => bins.map((bin) => {
        const index = total.findIndex((_, place) => Math.abs(middle(place) - centre(bin)) < (bin.high - bin.low) / 2);
        return index < 0 ? NaN : under[index];
      }),
    };
  }

  /** @param {number[]} ticks @param {(value: number) => number} y */
  const horizontal = (ticks, y) => svg("g", { class: "chart__grid", "aria-hidden": "true" }, ...ticks.flatMap((tick) => [
    svg("path", { d: `M${LEFT} ${charts.round(y(tick))}H${RIGHT}` }),
    svg("text", { x: LEFT - 6, y: charts.round(y(tick)) + 4, "text-anchor": "end" }, figure(tick))]));

  /** @param {import("./histogram.js").Bin[]} bins @param {(value: number) => number} x @param {string} mark */
  const bottom = (bins, x, mark) => svg("g", { class: "chart__axis", "aria-hidden": "true" }, ...roundTicks(bins[0].low, bins.at(-1)?.high ?? 1, 7).flatMap((tick) => [
    svg("path", { d: `M${charts.round(x(tick))} ${BASE}v4` }),
    svg("text", { x: charts.round(x(tick)), y: HEIGHT - 4, "text-anchor": "middle" }, figure(tick, 5))]),
    svg("text", { class: "spectrum__mass", x: RIGHT, y: BASE + 16, "text-anchor": "end" }, `m(${mark}), GeV`));

  /** @param {number[]} range @param {(value: number) => number} x */
  function hidden([low, high], x) {
    const [from, to] = [Math.max(LEFT, x(low)), Math.min(RIGHT, x(high))];
    const stripes = Array.from({ length: Math.ceil((to - from + BASE) / 14) }, (_, index) => stripe(from, to, from - BASE + index * 14));
    return svg("g", { class: "spectrum__hidden" }, svg("rect", { x: from, y: 10, width: to - from, height: BASE - 10 }), svg("path", { d: stripes.join("") }),
      svg("text", { x: (from + to) / 2, y: BASE / 2, "text-anchor": "middle" }, "BLINDED"));
  }

  /** One slanted line inside a box. @param {number} from @param {number} to @param {number} start */
  function stripe(from, to, start) {
    const [x0, x1] = [Math.max(from, start), Math.min(to, start + BASE - 10)];
    return x1 > x0 ? `M${charts.round(x0)} ${charts.round(BASE - (x0 - start))}L${charts.round(x1)} ${charts.round(BASE - (x1 - start))}` : "";
  }

  /** @param {number[]} range @param {(value: number) => number} x */
  const windowOf = ([low, high], x) => svg("path", { class: "spectrum__window", d: `M${charts.round(x(low))} 10V${BASE}M${charts.round(x(high))} 10V${BASE}` });

  /** @param {string} look @param {[number, number][]} points */
  const line = (look, points) => svg("path", { class: look, d: charts.linePath(points) });

  /** @param {import("./histogram.js").Bin} bin @param {(value: number) => number} x @param {(value: number) => number} y */
  function point(bin, x, y) {
    const cx = charts.round(x(centre(bin)));
    const [low, high] = poissonInterval(bin.count).map((end) => charts.round(y(end / bin.share)));
    return svg("g", { class: "spectrum__point" }, svg("path", { d: `M${cx} ${high}V${low}` }), svg("circle", { cx, cy: charts.round(y(bin.value)), r: 2.4 }));
  }

  /** The residuals. @param {import("./histogram.js").Bin[]} bins @param {number[]} expected @param {ReturnType<typeof fitted> | null} peak @param {(value: number) => number} x */
  function below(bins, expected, peak, x) {
    const found = residuals(bins, expected);
    const most = Math.max(3, ...found.map((value) => Math.abs(value ?? 0)));
    const y = charts.linear([-most, most], [MIDDLE + SPREAD, MIDDLE - SPREAD]);
    const width = Math.max(1, (RIGHT - LEFT) / bins.length - 1);
    return [svg("path", { class: "spectrum__zero", d: `M${LEFT} ${MIDDLE}H${RIGHT}` }),
      svg("g", { class: "chart__grid", "aria-hidden": "true" }, ...[-most, most].map((value) => svg("text", { x: LEFT - 6, y: charts.round(y(value)) + 4, "text-anchor": "end" }, `${value > 0 ? "+" : "−"}${Math.round(Math.abs(value))}σ`))),
      ...bins.map((bin, index) => {
        const value = found[index];
        if (value === null) return null;
        return svg("rect", { class: Math.abs(value) >= 3 ? "spectrum__pull spectrum__pull--far" : "spectrum__pull", x: charts.round(x(centre(bin)) - width / 2), y: charts.round(Math.min(y(value), MIDDLE)), width: charts.round(width), height: Math.max(0.6, charts.round(Math.abs(y(value) - MIDDLE))) });
      }), peak ? line("spectrum__fit", peak.pulls.map(([mass, value]) => [x(mass), y(Math.max(-most, Math.min(most, value)))])) : null];
  }

  return {
    element,
    /** @param {any} next */
    update(next) {
      world = next;
      draw();
    },
  };
}

/** @param {import("./histogram.js").Bin} bin */
const centre = (bin) => (bin.low + bin.high) / 2;

/** What a bin holds, for the vertical axis: of even width in GeV, or in the logarithm of the mass. @param {import("./histogram.js").Bin[]} bins */
function perBin([first, second = first]) {
  const [one, two] = [first.high - first.low, second.high - second.low];
  return Math.abs(two / one - 1) < 1e-4 ? `Events / ${figure(one)} GeV` : `Events / ${figure(100 * (first.high / first.low - 1), 2)} % of mass`;
}
