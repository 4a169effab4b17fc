// Answers requests about the JavaScript module, one JSON object a line, for the tests in Python.

import { createInterface } from "node:readline";

import { reportOfBrowser } from "../../../src/sottovoce/local/web/invitation.js";
import * as local from "../../../src/sottovoce/local/web/sottovoce-local.js";

Math.random = () => {
  throw new Error("Math.random is not for this");
};

const protocols = new Map();

async function protocolOf(text) {
  if (!protocols.has(text)) protocols.set(text, await local.Protocol.fromText(text));
  return protocols.get(text);
}

function bits(values) {
  const view = new DataView(new ArrayBuffer(8));
  return Array.from(values, (value) => {
    view.setFloat64(0, value);
    return view.getBigUint64(0).toString(16).padStart(16, "0");
  });
}

/** What JSON cannot say is written {"js": "NaN"}. */
function revived(key, value) {
  const others = { NaN, Infinity, "-Infinity": -Infinity, "-0": -0, undefined, bigint: 1n };
  return typeof value === "object" && value !== null && "js" in value ? others[value.js] : value;
}

const token = (hex) => (hex === null || hex === undefined ? undefined : local.fromHex(hex));

/** A source that reads random bytes from a tape. */
function tape(hex) {
  const bytes = local.fromHex(hex);
  let at = 0;
  return (size) => {
    if (at + size > bytes.length) throw new Error("the tape is at its end");
    at += size;
    return bytes.slice(at - size, at);
  };
}

function memory(content = {}) {
  const items = new Map(Object.entries(content));
  return { getItem: (key) => items.get(key) ?? null, setItem: (key, value) => void items.set(key, value), items };
}

const answers = {
  quantile: ({ ks }) => bits(ks.map((k) => local.normalQuantile((2 * Number(k) + 1) * 2 ** -53))),

  candidate: ({ seed, index, d }) => bits(local.candidate(BigInt(seed), index, d)),

  threshold: ({ epsilon, K, m }) => local.threshold(epsilon, K, m).toString(),

  async protocol({ text }) {
    const protocol = await protocolOf(text);
    const randomizer = new local.Randomizer(protocol);
    const { d, columns, epsilon } = protocol;
    return { id: local.toHex(protocol.id), threshold: randomizer.threshold.toString(), d, columns, epsilon };
  },

  encode: async ({ text, records }) => {
    const protocol = await protocolOf(text);
    return records.map((record) => bits(protocol.encode(record)));
  },

  async top({ text, seed, z }) {
    const randomizer = new local.Randomizer(await protocolOf(text));
    return Array.from(randomizer.top(BigInt(seed), Float64Array.from(z)));
  },

  async report({ text, record, label, random, ...options }) {
    const randomizer = new local.Randomizer(await protocolOf(text), { maxEpsilon: options.maxEpsilon });
    if (random !== undefined) randomizer._random = tape(random);
    return local.toHex(await randomizer.report(record, label, { token: token(options.token) }));
  },

  seed: async ({ id, token: text }) => (await local.seedOf(local.fromHex(id), text)).toString(),

  /** Several calls of reportOnce on one storage: what each returns, and what is kept in the end. */
  async once({ text, calls, content, together }) {
    const protocol = await protocolOf(text);
    const storage = memory(content);
    const call = async (options) => {
      const randomizer = new local.Randomizer(protocol);
      const report = await local.reportOnce(randomizer, options.record, options.label, { token: token(options.token), storage });
      return local.toHex(report);
    };
    const reports = [];
    if (together) reports.push(...(await Promise.all(calls.map(call))));
    else for (const options of calls) reports.push(await call(options));
    return { reports, kept: Object.fromEntries(storage.items) };
  },

  /** Tabs of the survey that answer at once, each with a token of its own: what each has, and what is kept. */
  async tabs({ text, tokens, record, label }) {
    const randomizer = new local.Randomizer(await protocolOf(text));
    const storage = memory();
    const seen = await Promise.all(tokens.map((token) => reportOfBrowser(randomizer, record, label, { token, storage })));
    const belongs = ({ report, token }) => local.keptReport(randomizer.protocol, { token, storage }).then((kept) => local.toHex(kept) === local.toHex(report));
    return { tokens: seen.map(({ token }) => token), belong: await Promise.all(seen.map(belongs)), kept: Object.fromEntries(storage.items) };
  },

  /** The report of bytes that the module takes from where it takes them. */
  async source({ text, record, label }) {
    const randomizer = new local.Randomizer(await protocolOf(text));
    const given = globalThis.crypto.getRandomValues;
    const sizes = [];
    globalThis.crypto.getRandomValues = (array) => {
      sizes.push(array.length);
      return array.fill(7);
    };
    try {
      return { report: local.toHex(await randomizer.report(record, label)), sizes };
    } finally {
      globalThis.crypto.getRandomValues = given;
    }
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const { ask, ...rest } = JSON.parse(line, revived);
    answer = { answer: await answers[ask](rest) };
  } catch (error) {
    answer = { error: error.name, message: error.message };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
