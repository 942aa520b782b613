// @ts-check
// Cricket's panel: the score above, field, ball and win line in the first fold, tables and charts below.

import { mountBall } from "./ball.js";
import { mountBowlers } from "./bowlers.js";
import { mountCards } from "./cards.js";
import { mountChances, pointsOf, swings } from "./chances.js";
import { mountChart } from "./chart.js";
import { mountCrease } from "./crease.js";
import { mountField } from "./field.js";
import { makeFlight } from "./flight.js";
import { mountLater } from "./later.js";
import { deedOf, mountPlans } from "./plans.js";
import { mountScore } from "./score.js";
import { weight, worths } from "./weights.js";
import { swingOf, whyWords } from "./why.js";
import { inningsName, isInterval, markKind, markName, momentNames, moments, names } from "./words.js";

/** Shortest flight after which a big ball fills the screen: two balls are then at least 1.5 s apart. */
const SLOW_MS = 450;
/** Big balls that are older than this are not shown large. */
const LATE_MS = 500;

export default {
  /** @param {HTMLElement} root @param {any} ctx */
  mount(root, ctx) {
    const { h } = ctx.ui;
    const flight = makeFlight();
    const score = mountScore(ctx.banner, ctx);
    const ball = mountBall(ctx);
    const field = mountField(ctx);
    const crease = mountCrease(ctx);
    const chances = mountChances(ctx);
    const chart = mountChart(ctx);
    const wheel = mountLater(ctx, { look: "wheel", name: "wheel", title: "Wagon wheel", note: "simulated, in eight sectors",
      load: async (body) => (await import("./wheel.js")).mountWheel(body, ctx) });
    const bowlers = mountBowlers(ctx);
    const plans = mountPlans(ctx);
    const pitch = mountLater(ctx, { look: "pitch", name: "pitch", title: "Pitch map", note: "off side on the right; simulated",
      load: async (body) => (await import("./pitch_map.js")).mountPitchMap(body, ctx) });
    const deeds = mountLater(ctx, { look: "deeds with-minds", name: "deeds", title: "Plans and results", note: "what each captain planned, did and got",
      async load(body) {
        const table = (await import("./deeds_table.js")).mountDeedsTable(body, ctx);
        await ctx.whole(); // the plans are in the first events
        return table;
      } });
    const cards = mountCards(ctx);
    const real = mountRealLater(ctx);
    const fold = h("div", { class: "cricket fold" },
      h("div", { class: "fold__column" }, field.element, chart.element),
      h("div", { class: "fold__column" }, ball.element, ball.why, chances.element, chances.story), crease.element, bowlers.element);
    ctx.lead.append(fold);
    root.append(h("div", { class: "cricket rest" }, wheel.element, pitch.element, plans.element, cards.element, real.element, deeds.element));
    const travels = ctx.parts([ball, field]);
    const lands = ctx.parts([score, chances, crease, chart, bowlers, wheel, pitch, plans, cards, real, deeds]);
    /** @type {ReturnType<typeof setTimeout> | undefined} */ let landing;
    return {
      /** @param {any} state @param {any} event */
      update(state, event) {
        const awaits = (state.episode?.options?.forecast_futures ?? 0) > 0 && state.episode?.status !== "ended";
        const moves = event !== null && !ctx.still();
        if (flight.take(state.world?.last_ball?.seq, moves)) {
          root.closest("main")?.style.setProperty("--flight", `${Math.round(flight.took)}ms`);
          if (flight.took >= SLOW_MS) void tellLarge(state.world.last_ball, flight, ctx);
        }
        const world = { ...state.world, flight_ms: flight.took, awaits_forecast: awaits, seats: state.episode?.seats, decided: state.decisions };
        travels.update(world, moves);
        clearTimeout(landing);
        if (flight.left > 0) landing = setTimeout(() => lands.update(world, moves), flight.left);
        else lands.update(world, moves);
      },
      destroy() {
        clearTimeout(landing);
        travels.destroy();
        lands.destroy();
        for (const one of [wheel, pitch, deeds]) one.destroy();
        for (const place of [root, ctx.banner, ctx.lead]) place.replaceChildren();
      },
    };
  },
  sections: async (/** @type {any} */ state) => (await import("./sections.js")).sections(state.world ?? {}),
  best: async (/** @type {any} */ state) => (await import("./interval.js")).bestOfMatch(state.world ?? {}),
  names: (/** @type {any} */ state) => names(state.world),
  since: (/** @type {any} */ { world = {} }) => (isInterval(world) ? world.last_ball.seq : 0),
  moments,
  note: (/** @type {any} */ event, /** @type {any} */ before) => swingOf(event, before) ?? deedOf(event),
  weight,
  worths,
  seat: () => import("./seat.js"),
  turns: (/** @type {any} */ state, /** @type {(moment: string) => any} */ stateAt) => turns(state.world ?? {}, stateAt),
};

/** The card of the real match that is played on, fetched if there is one. @param {any} ctx */
function mountRealLater(ctx) {
  const element = ctx.ui.h("div", { class: "real-match", hidden: true });
  /** @type {any} */ let newest = null;
  /** @type {Promise<any> | null} */ let card = null;
  return {
    element,
    /** @param {any} world */
    update(world) {
      newest = world;
      if (!world.real) return;
      card ??= import("./real.js").then(({ mountReal }) => mountReal(ctx), () => null);
      void card.then((one) => {
        if (one && element.hidden) element.append(one.element);
        element.hidden = !one;
        one?.update(newest);
      });
    },
  };
}

/** A wicket or a six takes the screen once the ball has come to rest. @param {any} ball @param {ReturnType<typeof makeFlight>} flight @param {any} ctx */
async function tellLarge(ball, flight, ctx) {
  const kind = markKind(ball.mark);
  if (kind !== "wicket" && kind !== "six") return;
  const due = performance.now() + flight.left;
  const { showLarge } = await import("./large.js");
  const show = () => {
    const stands = flight.seq === ball.seq && !ctx.still() && ctx.banner.checkVisibility() && !document.querySelector("dialog[open]");
    if (stands && performance.now() - due < LATE_MS) showLarge(ctx.ui, kind, ctx.ui.clip(ctx.ui.plain(ball.words), 120));
  };
  setTimeout(show, due - performance.now());
}

/**
 * The balls that moved the chance to win most, with what both captains thought and what their calls were worth.
 * @param {any} world at the end @param {(moment: string) => any} stateAt
 */
function turns(world, stateAt) {
  return swings(pointsOf(world.chances)).map((swing) => {
    const moment = momentNames.ball(swing.innings, swing.delivery);
    const ball = stateAt(moment)?.world?.last_ball;
    const [gains, points] = [world.teams?.[swing.change > 0 ? "home" : "away"]?.name ?? "", Math.abs(Math.round(100 * swing.change))];
    const sides = ball ? /** @type {const} */ (["bowling", "batting"]).map((role) => thought(world, ball, role)) : [];
    const why = ball ? [whyWords({ ...swing, batting: ball.decisions?.batting?.actor, batted: ball.values?.batting ?? 0, bowled: ball.values?.bowling ?? 0 }, world.teams)] : [];
    return { moment, title: `${inningsName(swing.innings)}, ${swing.at}: ${markName(swing.mark, "wicket")}, ${gains} +${points}`, lines: [ball?.words ?? "", ...why, ...sides] };
  });
}

/** @param {any} world @param {any} ball @param {"bowling" | "batting"} role */
function thought(world, ball, role) {
  const made = ball.decisions?.[role];
  const value = ball.values?.[role];
  const worth = typeof value === "number" && Math.abs(value) >= 0.0005 ? ` (worth ${value > 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)} %)` : "";
  return made?.reasoning ? `${world.teams?.[made.actor]?.name ?? made.actor}: ${made.reasoning}${worth}` : "";
}
