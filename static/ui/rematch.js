// @ts-check
// A rematch.

import { call } from "../live/api.js";
import { takeStarted } from "../live/seats.js";
import { showRefusal } from "./refusal.js";

/** What a rematch asks for: the same captains and options, another seed. @param {any} episode */
export function rematchOf(episode) {
  const other = Object.entries(episode.seats ?? {}).find(([actor]) => actor !== episode.agent)?.[1];
  return {
    environment: episode.environment, captain_preset: episode.seats?.[episode.agent]?.policy, ...(other ? { opponent_choice: other.policy } : {}),
    pace: episode.pace === "max" ? "fast" : episode.pace, options: episode.options ?? {},
  };
}

/** Start it and go there, or show in `wrong` why not. @param {string} root @param {any} episode @param {HTMLElement} wrong @param {() => void} again */
export async function startRematch(root, episode, wrong, again) {
  const answer = await call(root, "custom/start_episode", rematchOf(episode));
  if (!answer.ok) return showRefusal(wrong, answer, root, { again });
  takeStarted(answer.body);
  location.assign(new URL(`watch/${encodeURIComponent(answer.body.episode_id)}`, root));
}
