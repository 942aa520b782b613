// @ts-check
// The keys of a seat: figures pick, Enter sends.

import { figure, typed } from "./typed.js";

/** @param {{pick: (index: number) => boolean, send: () => void}} form @param {() => boolean} isAsked */
export function listenToKeys(form, isAsked) {
  document.addEventListener("keydown", (event) => {
    const [picked, key] = [figure(event), typed(event)];
    if (!isAsked() || !(picked || key) || document.querySelector("dialog[open]")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input:not([type=radio]):not([type=range]), select, textarea, [contenteditable]")) return;
    if (picked && form.pick(picked - 1)) event.preventDefault();
    else if (key === "Enter" && !target.closest("button, summary, a, form")) { event.preventDefault(); form.send(); }
  });
}
