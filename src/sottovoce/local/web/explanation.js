/** What a protocol does and promises, in words and with its own numbers. */

import { element } from "./element.js";

const TWO_TO_64 = 2 ** 64;
const WEAK = 5; // odds of one to one may become 150 to one

function percent(share) {
  return `${(100 * share).toFixed(share > 0.1 && share < 0.9 ? 0 : 1)} %`;
}

/** A factor in words, rounded up: it is a promise. */
function times(factor) {
  if (factor < 100) return (Math.ceil(10 * factor) / 10).toFixed(1);
  return factor < 1e6 ? Math.ceil(factor).toLocaleString("en") : (1.05 * factor).toExponential(1);
}

/** The steps from answers to a report, as a list of terms. */
export function explanation(protocol, threshold) {
  const { epsilon, K, m } = protocol;
  const share = Number(threshold) / TWO_TO_64;
  const factor = times(Math.exp(epsilon));
  const parts = [
    ["How the report is drawn",
      `A public code stands for a list of ${K} random patterns. Your answers fit ${m === 1 ? "one" : m} of them best. ` +
      `With a chance of ${percent(share)} the page picks ${m === 1 ? "that one" : "one of those"}, otherwise one of the ` +
      `other ${K - m}. The report holds the code of the list and the number of the pattern that was picked.`],
    ["What that promises",
      `Whatever your answers are, every pattern can be picked, and none is more than ${factor} times as likely with some ` +
      `answers as with others. So whoever sees the report, the people who run this survey included, can change the odds ` +
      `of a guess about your answers by a factor of ${factor} at most (local differential privacy, epsilon = ${epsilon}).` +
      (epsilon > WEAK ? " That is a weak promise: a single report can say a lot about your answers." : "")],
    ["What it is good for",
      "Over very many reports the chance averages out, and what the answers have in common shows. A model is made from " +
      "the reports; answers are not collected."],
    ["Only once",
      `A second report could change the odds by another factor of ${factor}. This browser keeps the first report and ` +
      "sends no other."],
  ];
  return element("dl", {}, ...parts.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)]));
}
