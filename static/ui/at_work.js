// @ts-check
// Who is at work on the present: whose decision forms, what is known of it, and when that has to be drawn again.

import { Thoughts } from "../live/thoughts.js";

const CLOCK_MS = 250;

/**
 * @param {{timeline: import("../live/timeline.js").Timeline, player: import("../live/player.js").Player,
 *   isLive: () => boolean, schedule: () => void}} page
 */
export function watchWork({ timeline, player, isLive, schedule }) {
  const thoughts = new Thoughts();
  const forming = () => (player.following && isLive() ? thoughts.after(timeline.headState.episode?.turn ?? 0, performance.now()) : null);
  setInterval(() => { if (forming()?.done === false) schedule(); }, CLOCK_MS);
  return {
    forming,
    /** @param {import("../live/protocol.js").Frame} frame */
    take(frame) {
      if (frame.frame === "hello") thoughts.clear();
      if (frame.frame === "thought") thoughts.take(frame, performance.now());
    },
    /** The actor whose model is at work, as the last finished step tells. @param {number} seq @param {any} state */
    thinking(seq, state) {
      if (state.episode?.status !== "live" || !player.following) return null;
      const last = timeline.eventAt(seq);
      const next = last?.type === "step.taken" ? last.data?.next_actor : null;
      return next && state.episode.seats?.[next]?.source === "model" ? next : null;
    },
  };
}
