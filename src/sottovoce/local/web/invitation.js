/**
 * Whether the link of a visit is an invitation to this survey, found out here.
 *
 * The collector tells everybody the same `mark`, with which issued tokens can be checked. So it does not learn who
 * opened the page by which link, and how long an answer took; and nobody learns by asking whether a link was used.
 */

import { alone, fromHex, keptReport, reportOnce, toHex } from "./sottovoce-local.js";
import { Told } from "./words.js";

const TOKEN = /^[A-Za-z0-9_.~-]{16,128}$/; // what a collector takes for a token
const ISSUED = /^[A-Za-z0-9_-]{48}$/; // what `sottovoce local tokens` writes
const PROVED = 32;
const CHECKED = 4;
const PREFIX = new TextEncoder().encode("sottovoce invitation\0");

/** What the address says behind #. */
export const linked = () => new URLSearchParams(location.hash.slice(1));

/** The token of the link, or a new one where nobody is invited. */
export async function tokenOfVisit({ required, mark }) {
  const token = linked().get("token");
  if (token === null) {
    if (required) throw new Told("no-invitation");
    return toHex(crypto.getRandomValues(new Uint8Array(16)));
  }
  if (!TOKEN.test(token) || (mark !== undefined && !(await isMarked(token, fromHex(mark))))) {
    throw new Told("damaged-invitation");
  }
  return token;
}

/** Tell whether a token has the form and the check of those that were issued for this survey. */
export async function isMarked(token, mark) {
  if (!ISSUED.test(token)) return false;
  const text = atob(token.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const hashed = new Uint8Array([...PREFIX, ...mark, ...bytes.slice(0, PROVED)]);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", hashed));
  return bytes.slice(PROVED).every((byte, place) => byte === digest[place]) && bytes.length === PROVED + CHECKED;
}

export const tokenKey = (protocol) => `sottovoce-token-${toHex(protocol.id)}`;

/** The one report of this browser, and the token that it belongs to, whichever of several tabs was first. */
export async function reportOfBrowser(randomizer, record, label, { token, storage }) {
  const key = tokenKey(randomizer.protocol);
  return alone(key, async () => {
    const first = (await keptReport(randomizer.protocol, { storage })) === null;
    if (first) await storage.setItem(key, token);
    const own = first ? token : await storage.getItem(key);
    return { token: own, report: await reportOnce(randomizer, record, label, { token: own, storage }) };
  });
}
