// @ts-check
// The seat that a person plays: whether this tab has it, what is asked, how long is left, what was answered.

import { call, read, recallSeat, rememberSeat } from "../live/api.js";
import { seatHeaders, takeFromAddress } from "../live/seats.js";
import { h, replace, setAttribute, setText } from "./dom.js";
import { makeClock } from "./seat_clock.js";
import { makeControls } from "./seat_controls.js";
import { listenToKeys } from "./seat_keys.js";
import { waitingWords } from "./seat_words.js";
import { makeInvitation } from "./seat_invite.js";
import { makeTokenForm } from "./seat_token.js";
import { makeWin } from "./seat_win.js";
import { clip, plain, words } from "./text.js";

const [NOW_MS, SOON_MS, ASKED_MS] = [60, 400, 5_000];

/** @typedef {{actor: string, turn: number, limit_s: number, left_s: number, legal_actions: any[], situation: Record<string, any>, refused: any, prompt: string}} Asked */

/** @param {HTMLElement} place @param {string} root @param {string} episodeId @param {() => void} changed hears that the seat is asked, or no longer */
export function mountSeat(place, root, episodeId, changed) {
  const [title, say] = [h("h2", { id: "seat-title", class: "seat__title" }), h("p", { class: "seat__say", role: "status" })];
  const clock = makeClock(place, say, { asked: () => (board.hidden ? null : asked), left: () => left(), stands: () => stands(), over: () => soon(SOON_MS) });
  const [refused, take, leave] = [h("p", { class: "notice notice--bad", hidden: true }), h("button", { class: "chip", type: "button" }, "Take the seat"), h("button", { class: "more", type: "button" }, "leave", h("span", { class: "seat__word" }, " the seat"))];
  const [token, invitation] = [makeTokenForm(() => poll()), makeInvitation(root, episodeId, () => poll())];
  const [form, win] = [makeControls({ send, weigh }), makeWin(root, episodeId)];
  const board = h("div", { class: "seat__board", hidden: true }, clock.bar, refused, form.element);
  replace(place, h("div", { class: "card__head" }, title, h("span", { class: "seat__side" }, clock.figures, " ", take, leave)), say, invitation.element, token.element, win.element, board);

  let taken = takeFromAddress(episodeId) || recallSeat() === episodeId;
  /** @type {Asked | null} */ let asked = null;
  /** @type {any} */ let episode = {};
  /** What was sent last, and what of it still waits for the seat to be asked again. @type {import("./seat_controls.js").Call[]} */ let [sent, queue] = [[], []];
  /** @type {Record<string, any>} */ let names = {};
  /** @type {string[][]} */ let [people, mine] = [[], []];
  let [reading, atForm, pausedThere, reason, until, wait, answered] = [false, false, false, "", 0, SOON_MS, 0];
  /** @type {ReturnType<typeof setTimeout> | null} */ let timer = null;

  const nameOf = (/** @type {string | null} */ actor) => (actor ? clip(plain(names[actor] ?? words(actor)), 60) : "the world");
  const stands = () => episode.status === "paused" || pausedThere;
  const [path, left] = [`custom/asked?episode_id=${encodeURIComponent(episodeId)}`, () => (stands() ? Number(asked?.left_s) : (until - performance.now()) / 1000)];
  const soon = (/** @type {number} */ after) => {
    if (timer !== null) clearTimeout(timer);
    timer = taken && episode.status !== "ended" ? setTimeout(poll, after) : null;
  };

  async function poll() {
    timer = null;
    if (reading || !taken || episode.status === "ended") return;
    reading = true;
    const [answer] = await Promise.all([read(root, path, seatHeaders(episodeId)), form.ready()]);
    reading = false;
    if (!taken || episode.status === "ended") return;
    if (answer.status === 401 || answer.status === 403) return needToken(answer.message);
    if (answer.ok) hear(answer.body);
    else if (answer.status) setText(say, answer.message);
    else setText(say, "The server cannot be reached; this page keeps trying. When time runs out, the fallback decides and the match continues.");
    wait = Math.min(SOON_MS, queue.length ? NOW_MS : 2 * wait);
    soon(answer.ok && !asked ? wait : ASKED_MS);
  }

  /** @param {import("./seat_controls.js").Call[]} calls */
  async function weigh(calls) {
    const turn = asked?.turn;
    const answer = await read(root, `${path}&draft=${encodeURIComponent(JSON.stringify(calls))}`, seatHeaders(episodeId));
    return answer.ok && answer.body.asked?.turn === turn ? answer.body.asked?.weighed ?? null : null;
  }

  function hear(/** @type {any} */ body) {
    const next = body.asked?.turn > answered ? body.asked : null; // an older one was on its way when the answer went
    mine = body.yours;
    invitation.update(nameOf);
    pausedThere = body.paused === true; // the event that says so may be withheld
    if (!next) {
      if (body.deciding && !mine.includes(body.deciding)) queue = [];
      rest(queue.length > 0);
      return queue.length ? undefined : setText(say, waitingWords(body, nameOf));
    }
    until = performance.now() + next.left_s * 1000;
    if (asked && asked.turn === next.turn && asked.actor === next.actor) { asked.left_s = next.left_s; return; }
    const following = next.refused ? undefined : queue.shift();
    if (!following) { queue = []; return show(next); }
    asked = next;
    void act(following);
  }

  function show(/** @type {Asked} */ next) {
    asked = next;
    place.classList.add("seat--asked");
    setText(title, `Your turn: ${nameOf(next.actor)}`);
    setText(say, `${Math.round(next.left_s)} seconds to decide.`);
    refused.hidden = !next.refused;
    setText(refused, next.refused ? `Rejected; nothing has happened: ${clip(plain(next.refused.message), 300)}` : "");
    board.hidden = false;
    setAttribute(board, "inert", false);
    form.ask(next, next.refused ? sent : null);
    if (!asked) return; // a draft that is repeated has answered already
    if (atForm) form.focus();
    atForm = false;
    clock.again();
    changed();
  }

  /** No question is open: the form keeps its place, so that the page does not jump. @param {boolean} [sending] more calls follow at once */
  function rest(sending = false) {
    const was = asked !== null;
    asked = null;
    form.enable(false);
    if (sending) return;
    setAttribute(board, "inert", !form.isOwn());
    place.classList.remove("seat--asked", "seat--hurry");
    if (was) changed();
    clock.clear();
    setText(title, `You play ${(mine.length ? mine : people).map(nameOf).join(" and ")}`);
  }

  /** @param {import("./seat_controls.js").Call[]} calls @param {string} why */
  function send(calls, why) {
    if (!asked) return;
    [sent, queue, reason] = [calls, calls.slice(1), why];
    atForm = place.contains(document.activeElement);
    setText(say, "Sending…");
    void act(calls[0]);
  }

  async function act(/** @type {import("./seat_controls.js").Call} */ action) {
    if (!asked) return;
    form.enable(false);
    const answer = await call(root, "custom/act", { episode_id: episodeId, actor: asked.actor, turn: asked.turn, action, reason }, "POST", undefined, seatHeaders(episodeId));
    if (answer.ok) {
      answered = answer.body.turn;
      rest(queue.length > 0);
      if (!queue.length) setText(say, form.isOwn() ? "Done." : `Done: ${clip(words(action.tool), 60)}.`);
      return soon(wait = queue.length ? NOW_MS : form.isOwn() ? SOON_MS / 2 : SOON_MS);
    }
    queue = [];
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

  function draw() {
    place.classList.toggle("seat--vacant", !taken);
    take.hidden = taken;
    leave.hidden = !taken;
    rest();
    if (taken) return;
    board.hidden = true;
    setText(title, `A person plays ${people.map(nameOf).join(" and ")}`);
    setText(say, "");
  }

  /** A person who has won says so. @param {any} state */
  function celebrate(state) {
    if (!win.show(form.won(state, mine))) return;
    board.hidden = take.hidden = leave.hidden = !(place.hidden = false);
    setText(title, "You won");
    say.hidden = true;
  }

  take.addEventListener("click", () => { taken = true; rememberSeat(episodeId); draw(); setText(say, "…"); void poll(); });
  leave.addEventListener("click", () => { taken = false; rememberSeat(""); token.hide(); draw(); });
  listenToKeys(form, () => asked !== null);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && taken) soon(0); });

  return {
    asked: () => asked !== null,
    /** @param {Record<string, any>} state the newest, wherever the viewer stands @param {Record<string, string>} known what people call the actors */
    update(state, known) {
      [episode, names] = [state.episode ?? {}, known];
      const seats = Object.entries(episode.seats ?? {}).filter(([, seat]) => /** @type {any} */ (seat).source === "human").map(([actor]) => actor);
      const gone = seats.length === 0 || (episode.status === "ended" && win.element.hidden);
      if (seats.join() !== people.join() || place.hidden !== gone) {
        people = seats;
        place.hidden = gone;
        draw();
        if (taken && !gone) soon(0);
      }
      if (taken && episode.status === "ended" && win.element.hidden) celebrate(state);
      if (asked && !queue.length && episode.turn >= asked.turn) {
        rest();
        setText(say, "That turn is over.");
        soon(SOON_MS / 4);
      }
    },
  };
}
