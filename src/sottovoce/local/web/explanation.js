/** What a protocol does and promises, in words and with its own numbers. */

import { element } from "./element.js";

const TWO_TO_64 = 2 ** 64;
const WEAK = 5; // odds of one to one may become 150 to one

function percent(words, share) {
  const digits = share > 0.1 && share < 0.9 ? 0 : 1;
  return words.number(share, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A factor in words, rounded up: it is a promise. */
function times(words, factor) {
  if (factor < 100) return words.number(Math.ceil(10 * factor) / 10, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  if (factor < 1e6) return words.number(Math.ceil(factor), {});
  return words.number(1.05 * factor, { notation: "scientific", maximumFractionDigits: 1 });
}

/** The steps from answers to a report, as a list of terms. */
export function explanation(words, protocol, threshold, invited) {
  const { epsilon, K, m } = protocol;
  const factor = times(words, Math.exp(epsilon));
  const rest = words.text("patterns", { count: K - m });
  const share = percent(words, Number(threshold) / TWO_TO_64);
  const weak = epsilon > WEAK ? [words.text("promised-weak")] : [];
  const invitation = invited ? [words.text("once-invited")] : [];
  const parts = [
    ["drawn-title", [words.text("drawn", { count: m, all: K, rest, share })]],
    ["promised-title", [words.text("promised", { factor, epsilon }), ...weak]],
    ["use-title", [words.text("use")]],
    ["once-title", [words.text("once", { factor }), ...invitation]],
  ];
  return element("dl", {}, ...parts.flatMap(([term, texts]) =>
    [element("dt", {}, words.text(term)), element("dd", {}, texts.join(" "))]));
}
