// @ts-check
// JSON as the record has it: a whole number past 2^53 keeps its digits, as text.

const LONG = /\d{16}/;
const TOKENS = /"(?:[^"\\]|\\.)*"|(?<![\w.+-])-?\d{16,}(?![\w.+-])/g;

/** @param {string} text @returns {any} @throws {SyntaxError} */
export function parseJson(text) {
  return JSON.parse(LONG.test(text) ? text.replace(TOKENS, kept) : text);
}

/** @param {string} token a string, or a number of many digits */
const kept = (token) => (token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `"${token}"`);
