// @ts-check
// The page of a moment: copying and sharing its link, and a form that is sent once.

import { confirmIn, copyLink } from "./ui/confirm.js";
import { byId } from "./ui/dom.js";

const say = confirmIn(byId("said"));
const copy = byId("copy");
const share = byId("share");
const address = copy.dataset.address ?? location.href;
const go = /** @type {HTMLButtonElement | null} */ (document.getElementById("go"));

// The clip takes a moment to draw: until then its place shows the still.
const [still, clip] = document.querySelectorAll(".moment__scene img");
if (clip) /** @type {HTMLElement} */ (clip).style.background = `url("${/** @type {HTMLImageElement} */ (still).src}") center / cover`;

copy.addEventListener("click", () => copyLink(address, say, `Copy this: ${address}`));
if ("share" in navigator) share.dataset.can = "";
share.addEventListener("click", async () => {
  try {
    await navigator.share({ title: document.title, url: address });
    say("Shared");
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") await copyLink(address, say, `Copy this: ${address}`);
  }
});

document.getElementById("form")?.addEventListener("submit", () => { if (go) go.disabled = true; });
addEventListener("pageshow", () => { if (go) go.disabled = false; });
