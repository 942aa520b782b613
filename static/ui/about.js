// @ts-check
// What an episode is made of: its seed to copy, who plays it, its record to take away.

import { SOURCE_WORDS } from "../live/decisions.js";
import { makeDialog } from "./dialog.js";
import { h, replace, setText } from "./dom.js";
import { clip, plain, plural, rewardText, words } from "./text.js";

/** @param {HTMLButtonElement} opener @param {string} root @param {string} episodeId */
export function mountAbout(opener, root, episodeId) {
  const facts = h("dl", { class: "facts" });
  const seed = h("button", { class: "button", type: "button" }, "Copy the seed");
  const record = new URL(`api/episodes/${encodeURIComponent(episodeId)}/events`, root).href;
  const download = h("a", { class: "button", href: record, download: `${episodeId}.ndjson` }, "Download the events");
  const said = h("p", { class: "dialog__say", role: "status" });
  const dialog = makeDialog("About this episode", facts, h("div", { class: "dialog__row" }, seed, download), said,
    h("p", { class: "quiet" }, "The same seed with the same decisions gives the same events, byte for byte except for times. Everything in it is simulated."));
  /** @type {any} */ let episode = {};
  let head = 0;

  seed.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(String(episode.seed));
      setText(said, `Seed ${episode.seed} copied.`);
    } catch {
      setText(said, `The browser blocked copying. The seed is ${episode.seed}.`);
    }
  });
  download.addEventListener("click", () => setText(said, `${plural(head, "event")} so far, one JSON object a line.`));
  opener.addEventListener("click", () => {
    setText(said, "");
    draw();
    dialog.showModal();
  });

  function draw() {
    const seats = Object.entries(episode.seats ?? {}).map(([actor, seat]) => `${words(actor)}: ${seat.label ?? seat.policy} (${SOURCE_WORDS[seat.source] ?? seat.source ?? "unknown"})`);
    const options = Object.entries(episode.options ?? {}).map(([name, value]) => `${words(name)} ${typeof value === "string" ? value : JSON.stringify(value)}`);
    const own = episode.own_decisions;
    const rows = [["Episode", episodeId], ["World", episode.title], ["Seed", episode.seed], ["Who decides", seats.join("; ")], ["Pack", episode.pack],
      ["Options", options.join(", ")], ["Started", episode.started_at], ["Ended", episode.ended_at], ["End", episode.reason && words(episode.reason)],
      ["Score", typeof episode.score === "number" ? episode.score.toFixed(3) : ""], ["Rewards", rewardText(episode.total_reward)],
      ["Penalty", typeof episode.penalty === "number" ? String(episode.penalty) : ""], ["Own share", own ? `${own.own} of ${own.asked} decisions, ${own.refused} answers refused` : ""]];
    replace(facts, ...rows.filter(([, value]) => value !== undefined && value !== "").flatMap(([name, value]) =>
      [h("dt", {}, name), h("dd", {}, h("bdi", {}, clip(plain(value), 300)))]));
  }

  return {
    /** @param {Record<string, any>} state the newest @param {number} headSeq */
    update(state, headSeq) {
      episode = state.episode ?? {};
      head = headSeq;
      if (dialog.open) draw();
    },
  };
}
