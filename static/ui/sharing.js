// @ts-check
// What shares a moment of a watch page, fetched together.

export { mountClip } from "./clip.js";
export { mountShare, tellFrame } from "./share.js";
