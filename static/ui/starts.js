// @ts-check
// What starts another match from a watch page, fetched together.

export { mountFork } from "./fork.js";
export { startRematch } from "./rematch.js";
