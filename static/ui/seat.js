// @ts-check
// The seat that a person plays: whether this tab has it, what is asked, how long is left, what was answered.

import { call, read, recallSeat, rememberSeat } from "../live/api.js";
import { seatHeaders, takeFromAddress } from "../live/seats.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { makeSeatForm } from "./seat_form.js";
import { listenToKeys } from "./seat_keys.js";
import { clockText, factsOf, waitingWords } from "./seat_words.js";
import { makeInvitation } from "./seat_invite.js";
import { makeTokenForm } from "./seat_token.js";
import { clip, plain, words } from "./text.js";

const [SOON_MS, ASKED_MS, TICK_MS] = [400, 5_000, 250];
const [HURRY_S, FEW, PROMPT] = [10, 6, 40_000];

/** @typedef {{actor: string, turn: number, limit_s: number, left_s: number, legal_actions: any[], situation: Record<string, any>, refused: any, prompt: string}} Asked */

/** @param {HTMLElement} place @param {string} root @param {string} episodeId @param {() => void} changed hears that the seat is asked, or no longer */
export function mountSeat(place, root, episodeId, changed) {
  const title = h("h2", { id: "seat-title", class: "seat__title" });
  const clock = h("span", { class: "seat__left" });
  const bar = h("progress", { class: "seat__clock", max: 1, value: 1, "aria-label": "Time left" });
  const say = h("p", { class: "seat__say", role: "status" });
  const refused = h("p", { class: "notice notice--bad", hidden: true });
  const take = h("button", { class: "chip", type: "button" }, "Take the seat");
  const leave = h("button", { class: "more", type: "button" }, "leave the seat");
  const token = makeTokenForm(() => poll());
  const invitation = makeInvitation(root, episodeId, () => poll());
  const [task, facts] = [h("p", { class: "seat__task" }), h("dl", { class: "seat__facts" })];
  const sight = h("details", {}, h("summary", {}, "What you see"), facts);
  const prompt = h("pre", { dir: "auto", tabindex: "0", "aria-label": "What a language model would be asked" });
  const details = h("details", { class: "mind__raw" }, h("summary", {}, "What a language model would be asked"), prompt);
  const form = makeSeatForm({ onSend: send });
  const board = h("div", { class: "seat__board", hidden: true }, bar, refused, task, form.element, sight, details);
  replace(place, h("div", { class: "card__head" }, title, h("span", { class: "seat__side" }, clock, " ", take, leave)), say, invitation.element, token.element, board);

  let taken = takeFromAddress(episodeId) || recallSeat() === episodeId;
  /** @type {Asked | null} */ let asked = null;
  /** @type {any} */ let [last, episode] = [null, {}];
  /** @type {Record<string, any>} */ let names = {};
  /** @type {string[][]} */ let [people, mine] = [[], []];
  let until = 0;
  let [hurried, reading, atForm, chosenSight, pausedThere] = [false, false, false, false, false];
  /** @type {ReturnType<typeof setTimeout> | null} */ let timer = null;

  const nameOf = (/** @type {string | null} */ actor) => (actor ? clip(plain(names[actor] ?? words(actor)), 60) : "the world");
  const stands = () => episode.status === "paused" || pausedThere;
  const left = () => (stands() ? Number(asked?.left_s) : (until - performance.now()) / 1000);
  const soon = (/** @type {number} */ wait) => {
    if (timer !== null) clearTimeout(timer);
    timer = taken && episode.status !== "ended" ? setTimeout(poll, wait) : null;
  };

  async function poll() {
    timer = null;
    if (reading || !taken || episode.status === "ended") return;
    reading = true;
    const answer = await read(root, `custom/asked?episode_id=${encodeURIComponent(episodeId)}`, seatHeaders(episodeId));
    reading = false;
    if (!taken) return;
    if (answer.status === 401 || answer.status === 403) return needToken(answer.message);
    if (answer.ok) hear(answer.body);
    else if (answer.status) setText(say, answer.message);
    else setText(say, "The server cannot be reached; this page keeps trying. When time runs out, the fallback decides and the match continues.");
    soon(answer.ok && !asked ? SOON_MS : ASKED_MS);
  }

  function hear(/** @type {any} */ body) {
    const next = body.asked;
    mine = body.yours;
    invitation.update(nameOf);
    pausedThere = body.paused === true; // the event that says so may be withheld
    if (!next) {
      rest();
      return setText(say, waitingWords(body, nameOf));
    }
    until = performance.now() + next.left_s * 1000;
    if (asked && asked.turn === next.turn && asked.actor === next.actor) { asked.left_s = next.left_s; return; }
    show(next);
  }

  function show(/** @type {Asked} */ next) {
    asked = next;
    hurried = false;
    place.classList.add("seat--asked");
    setText(title, `Your turn: ${nameOf(next.actor)}`);
    setText(say, `${Math.round(next.left_s)} seconds to decide.`);
    refused.hidden = !next.refused;
    setText(refused, next.refused ? `Rejected; nothing has happened: ${clip(plain(next.refused.message), 300)}` : "");
    const seen = factsOf(next.situation);
    setText(task, seen.sentences.join(" "));
    task.hidden = seen.sentences.length === 0;
    replace(facts, ...seen.facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("bdi", {}, value)))));
    if (!chosenSight) sight.open = seen.facts.length <= FEW;
    setText(prompt, clip(plain(next.prompt), PROMPT));
    form.ask(next.legal_actions, next.refused ? last : null);
    board.hidden = false;
    setAttribute(board, "inert", false);
    if (atForm) form.focus();
    atForm = false;
    tick();
    changed();
  }

  /** No question is open: the form keeps its place, so that the page does not jump. */
  function rest() {
    const was = asked !== null;
    asked = null;
    setAttribute(board, "inert", true);
    place.classList.remove("seat--asked", "seat--hurry");
    if (was) changed();
    setText(clock, "");
    setText(title, `You play ${(mine.length ? mine : people).map(nameOf).join(" and ")}`);
  }

  async function send(/** @type {any} */ action, /** @type {string} */ reason) {
    if (!asked) return;
    const { actor, turn } = asked;
    atForm = place.contains(document.activeElement);
    form.enable(false);
    setText(say, "Sending…");
    const answer = await call(root, "custom/act", { episode_id: episodeId, actor, turn, action, reason }, "POST", undefined, seatHeaders(episodeId));
    if (answer.ok) {
      last = action;
      rest();
      setText(say, `Done: ${clip(words(action.tool), 60)}.`);
      return soon(SOON_MS);
    }
    if (answer.status === 401) return needToken(answer.message);
    form.enable(true);
    if (answer.status === 409 || answer.status === 404) {
      rest();
      setText(say, answer.message);
      return soon(SOON_MS);
    }
    setText(say, answer.status === 422 ? "That is not allowed; nothing has happened." : answer.message);
    form.refuse(answer.message, answer.wrong);
  }

  function needToken(/** @type {string} */ message) {
    rest();
    board.hidden = true;
    setText(say, message);
    token.ask();
  }

  function tick() {
    if (!asked || board.hidden) return;
    const seconds = Math.max(0, left());
    setText(clock, stands() ? `${clockText(seconds)}, paused` : clockText(seconds));
    setAttribute(bar, "max", asked.limit_s);
    bar.value = seconds;
    const hurry = seconds <= HURRY_S && episode.status !== "paused";
    place.classList.toggle("seat--hurry", hurry);
    if (hurry && !hurried) setText(say, `${Math.ceil(seconds)} seconds left, then the fallback decides.`);
    hurried = hurry;
    if (seconds === 0) soon(SOON_MS);
  }

  function draw() {
    place.classList.toggle("seat--vacant", !taken);
    take.hidden = taken;
    leave.hidden = !taken;
    rest();
    if (!taken) {
      board.hidden = true;
      setText(title, `A person plays ${people.map(nameOf).join(" and ")}`);
      setText(say, "");
    }
  }

  sight.firstElementChild?.addEventListener("click", () => { chosenSight = true; });
  take.addEventListener("click", () => { taken = true; rememberSeat(episodeId); draw(); setText(say, "…"); void poll(); });
  leave.addEventListener("click", () => { taken = false; rememberSeat(""); token.hide(); draw(); });
  listenToKeys(form, () => asked !== null);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && taken) soon(0); });
  setInterval(tick, TICK_MS);

  return {
    asked: () => asked !== null,
    /** @param {Record<string, any>} state the newest, wherever the viewer stands @param {Record<string, string>} known what people call the actors */
    update(state, known) {
      episode = state.episode ?? {};
      names = known;
      const seats = Object.entries(episode.seats ?? {}).filter(([, seat]) => /** @type {any} */ (seat).source === "human").map(([actor]) => actor);
      if (seats.join() !== people.join() || place.hidden !== (seats.length === 0 || episode.status === "ended")) {
        people = seats;
        place.hidden = seats.length === 0 || episode.status === "ended";
        draw();
        if (taken && !place.hidden) soon(0);
      }
      if (asked && episode.turn >= asked.turn) {
        rest();
        setText(say, "That turn is over.");
        soon(SOON_MS / 4);
      }
    },
  };
}
