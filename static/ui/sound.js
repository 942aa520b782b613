// @ts-check
// The sound of the page: the button, what it opens, the captions, and the saying of lines as the viewer moves.

import { get } from "../live/api.js";
import { clipOf, FASTEST, lineToSay, Turns } from "../live/speech.js";
import { BrowserVoice, ClipVoice } from "../live/voices.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { makeDialog } from "./dialog.js";
import { clip, plain } from "./text.js";

const KEPT = "spectator.sound";
const AHEAD = 40;
const CAPTION = 240;
/** How long a caption stands while the sound is off: at least, and for each of its characters. */
const [READ_MS, CHARACTER_MS] = [900, 35];
const SPEAKERS = { lead: "Lead", analyst: "Analyst" };

/** @typedef {import("../live/timeline.js").Timeline} Timeline */
/** @typedef {import("../live/player.js").Player} Player */
/** @typedef {import("../live/speech.js").Utterance} Utterance */
/** @typedef {{volume: number, captions: boolean, voice: string}} Wishes `voice` is "" for the server's, or a browser voice's name */

/**
 * @param {HTMLElement} button @param {HTMLElement} caption
 * @param {{root: string, episodeId: string, timeline: Timeline, player: Player, isLive: () => boolean, names: () => Record<string, string>, onChange: (on: boolean) => void}} page
 */
export function mountSound(button, caption, { root, episodeId, timeline, player, isLive, names, onChange }) {
  const wishes = recall();
  const turns = new Turns();
  const browser = new BrowserVoice();
  /** @type {ClipVoice | null} */ let clips = null;
  /** @type {{speaks: string, voice: string, answers: boolean, fault: string | null}} */ let server = { speaks: "browser", voice: "browser", answers: false, fault: null };
  let [on, used] = [false, false];
  let trouble = "";
  let shown = -1;

  const meter = h("div", { class: "sound__meter", "aria-hidden": "true" }, h("i"));
  const power = h("button", { class: "button", type: "button", on: { click: () => turn(!on) } });
  const volume = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: wishes.volume, id: "sound-volume", on: { input: () => wish({ volume: Number(volume.value) }) } });
  const captions = h("input", { type: "checkbox", id: "sound-captions", checked: wishes.captions, on: { change: () => wish({ captions: captions.checked }) } });
  const voices = h("select", { id: "sound-voice", on: { change: () => wish({ voice: voices.value }) } });
  const fault = h("p", { class: "sound__fault", role: "status" });
  const dialog = makeDialog("Sound",
    h("div", { class: "sound" }, h("div", { class: "sound__row" }, power, meter),
      h("label", { class: "sound__row", for: "sound-volume" }, h("span", {}, "Volume"), volume),
      h("label", { class: "sound__row", for: "sound-voice" }, h("span", {}, "Voice"), voices),
      h("label", { class: "sound__row", for: "sound-captions" }, h("span", {}, "Captions"), captions), fault));

  button.addEventListener("click", () => {
    if (!used) turn(true);
    dialog.showModal();
  });
  button.addEventListener("toggle-sound", () => turn(!on));
  BrowserVoice.onVoices(drawChoices);
  drawChoices();
  draw();
  void askServer();

  /** @param {boolean} wanted */
  function turn(wanted) {
    [on, used] = [wanted, true];
    trouble = "";
    if (on) clips ??= new ClipVoice(); // in a click: a browser lets nothing sound before one
    if (!on) hush();
    else setText(caption, whoIsWho());
    wish({});
    if (on) void askServer();
    onChange(on);
  }

  /** Each side with its captain, which the lines do not name. */
  function whoIsWho() {
    const called = names();
    return Object.entries(timeline.headState.episode?.seats ?? {}).map(([actor, seat]) => clip([(called[actor] ?? "").split(" · ")[0], plain(seat.label)].filter(Boolean).join(", "), 80)).join(" against ");
  }

  /** @param {Partial<Wishes>} changed */
  function wish(changed) {
    Object.assign(wishes, changed);
    clips?.setVolume(wishes.volume);
    browser.setVolume(wishes.volume);
    browser.choose(wishes.voice);
    try { localStorage.setItem(KEPT, JSON.stringify(wishes)); } catch { /* a private window keeps no choice */ }
    draw();
  }

  async function askServer() {
    const answer = await get(root, "api/voice");
    if (answer.ok) server = answer.body;
    drawChoices();
    draw();
  }

  const isUsed = () => on || !caption.hidden;
  const byServer = () => server.speaks === "clips" && wishes.voice === "";
  const isSpoken = () => player.following || (player.playing && player.speed <= FASTEST);

  function drawChoices() {
    const own = BrowserVoice.voices;
    replace(voices, h("option", { value: "" }, server.speaks === "clips" ? `The server’s: ${server.voice}` : own.length ? "This browser’s" : "None: captions only"),
      ...own.map((voice) => h("option", { value: voice.name, selected: voice.name === wishes.voice }, voice.name)));
    if (![...voices.options].some((option) => option.value === wishes.voice)) wishes.voice = "";
  }

  function draw() {
    setAttribute(button, "aria-pressed", String(on));
    setAttribute(button, "aria-label", on ? "Sound is on; open its settings" : used ? "Sound is off; open its settings" : "Turn the sound on");
    button.classList.toggle("tool--on", on);
    setText(power, on ? "Turn the sound off" : "Turn the sound on");
    setText(fault, on ? trouble || server.fault || "" : server.fault ?? "");
    caption.hidden = !wishes.captions || !used;
  }

  function hush() {
    turns.clear();
    clips?.stop();
    browser.stop();
    setText(caption, "");
  }

  /** @param {Utterance} line */
  async function say(line) {
    if (line.reply && byServer() && !server.answers) line.reply = null;
    setText(caption, `${SPEAKERS[line.speaker]}: ${clip(plain(line.caption), CAPTION)}`);
    try {
      if (!on) await new Promise((resolve) => setTimeout(resolve, READ_MS + CHARACTER_MS * line.caption.length));
      else if (byServer()) await /** @type {ClipVoice} */ (clips).play(await address(line));
      else await browser.play(plain(line.text), line.speaker === "analyst");
      trouble = "";
    } catch (error) {
      trouble = `${/** @type {Error} */ (error).message}. Captions continue.`;
      draw();
    }
    if (turns.said !== line) return;
    const next = turns.over(performance.now());
    if (next && isUsed()) void say(next);
  }

  /** @param {Utterance} line @returns {Promise<string>} */
  async function address(line) {
    if (line.url) return absolute(line.url);
    const answer = await get(root, `api/episodes/${encodeURIComponent(episodeId)}/lines/${line.seq}/clip${line.speaker === "analyst" ? "?part=reply" : ""}`);
    if (!answer.ok) throw new Error(answer.message);
    return absolute(answer.body.url);
  }

  /** @param {string} url */
  const absolute = (url) => new URL(url.replace(/^\//, ""), root).href;

  function prepareNext() {
    for (let seq = shown + 1; seq <= shown + AHEAD; seq += 1) {
      const url = timeline.eventAt(seq)?.type === "narration.line" && clipOf(timeline, seq)?.url;
      if (url) return void clips?.prepare(absolute(url)).catch(() => { /* it is asked for again when it is due */ });
    }
  }

  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  setInterval(() => {
    if (dialog.open && on) meter.style.setProperty("--level", String(calm.matches ? 0 : byServer() ? clips?.level : browser.level));
  }, 60);

  return {
    /** The viewer's place is now after event `seq`. @param {number} seq @param {boolean} jumped */
    moved(seq, jumped) {
      const from = shown;
      shown = seq;
      if (!isUsed() || from < 0 || from === seq) return;
      if (jumped || !isSpoken()) return hush();
      const line = lineToSay(timeline, from, seq, on && byServer() && player.following && isLive());
      if (line) {
        const how = turns.offer(line, performance.now());
        if (how === "interrupt") { clips?.stop(); browser.stop(); }
        if (how === "say" || how === "interrupt") void say(line);
      }
      if (on && byServer() && !player.following) prepareNext();
    },
  };
}

/** @returns {Wishes} */
function recall() {
  const usual = { volume: 0.8, captions: true, voice: "" };
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "{}");
    return {
      volume: typeof kept.volume === "number" ? Math.min(1, Math.max(0, kept.volume)) : usual.volume,
      captions: typeof kept.captions === "boolean" ? kept.captions : usual.captions,
      voice: typeof kept.voice === "string" ? kept.voice : usual.voice,
    };
  } catch { return usual; }
}
