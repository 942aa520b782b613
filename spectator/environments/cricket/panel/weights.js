// @ts-check
// The weight of a cricket event, and the values of decisions that it reports; pure.

/** Weight of the result and of a super over, the largest of all. */
const RESULT = 100;
/** Standard errors that a change of the chance to win must exceed to have weight. */
const SURE = 3;
/** Weights in percentage points of the chance to win, for events without a forecast: about their usual effect. */
const USUAL = { wicket: 4, six: 1.5, innings: 3, fifty: 3, five: 5 };

/**
 * @param {any} event @param {any} before the state that it changed
 * @returns {number} in hundredths of a win
 */
export function weight({ type, data }, before) {
  switch (type) {
    case "cricket.match_ended": case "cricket.super_over_started": return RESULT;
    case "cricket.forecast": return swingWeight(data, before.world?.forecast);
    case "cricket.wicket_fell": return USUAL.wicket + (data.player?.runs ?? 0) / 10;
    case "cricket.ball_bowled": return data.kind === "six" ? USUAL.six : 0;
    case "cricket.milestone_reached": return data.kind === "wickets" ? USUAL.five : data.kind === "batter" ? USUAL.fifty * (data.value / 50) : 0;
    case "cricket.innings_ended": return USUAL.innings;
    default: return 0;
  }
}

/** @param {any} data @param {any} last the forecast before */
function swingWeight(data, last) {
  if (!last || data.delivery === 0) return 0;
  const swing = Math.abs(data.home - last.home);
  return swing > SURE * Math.hypot(data.se, last.se) ? 100 * swing : 0;
}

/**
 * The effect of both captains' calls on their own side's chance, in percentage points.
 * @param {any} event @returns {{actor: string, points: number}[]}
 */
export function worths({ type, data }) {
  if (type !== "cricket.forecast" || data.delivery === 0) return [];
  const fielding = data.batting === "home" ? "away" : "home";
  return [{ actor: data.batting, points: 100 * data.batting_value }, { actor: fielding, points: 100 * data.bowling_value }];
}
