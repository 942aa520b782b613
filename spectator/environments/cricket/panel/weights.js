// @ts-check
// How much a cricket event matters, and what it says that decisions were worth; pure.

/** Weight of the result and of a tie that is broken: nothing outweighs them. */
const RESULT = 100;
/** Standard errors that a change of the chance to win must exceed to weigh anything. */
const SURE = 3;
/** Weights are points of the chance to win; without a forecast, the usual change. */
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
 * What both captains' calls on the ball did to their own side's chance, in points of a hundred.
 * @param {any} event @returns {{actor: string, points: number}[]}
 */
export function worths({ type, data }) {
  if (type !== "cricket.forecast" || data.delivery === 0) return [];
  const fielding = data.batting === "home" ? "away" : "home";
  return [{ actor: data.batting, points: 100 * data.batting_value }, { actor: fielding, points: 100 * data.bowling_value }];
}
