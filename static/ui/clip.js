// @ts-check
// Downloads a clip of the viewer's moment, drawn by the server.

import { toast } from "./confirm.js";
import { h } from "./dom.js";

/** How long the browser may take to begin its download, in milliseconds. */
const KEPT_MS = 4_000;

/**
 * @param {HTMLButtonElement} button @param {string} root @param {string} episodeId @param {() => number} seq the viewer's place
 */
export function mountClip(button, root, episodeId, seq) {
  const say = toast();
  button.addEventListener("click", async () => {
    const place = Math.max(1, seq());
    button.disabled = true;
    say("Rendering the clip…", true);
    try {
      const answer = await fetch(new URL(`clip/${encodeURIComponent(episodeId)}.webp?from=${place}`, root));
      if (!answer.ok) throw new Error((await answer.json()).detail ?? `the server answered ${answer.status}`);
      const address = URL.createObjectURL(await answer.blob());
      h("a", { href: address, download: `${episodeId}-${place}.webp` }).click();
      setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
      say("Clip downloaded");
    } catch (error) {
      say(`No clip: ${/** @type {Error} */ (error).message}`);
    }
    button.disabled = false;
  });
}
