/**
 * The device's side of a local collection, for browsers and Node >= 20: one record and its label go in, 22 bytes come
 * out, and nothing else leaves. One file, no dependencies; it makes the same candidates, unit vectors and protocol ids,
 * bit for bit, as the Python package sottovoce.local, and draws the report by the same whole numbers.
 *
 *     import { Protocol, Randomizer } from "./sottovoce-local.js";
 *
 *     const protocol = await Protocol.fromText(await (await fetch("/protocol")).text());
 *     const randomizer = new Randomizer(protocol, { maxEpsilon: 2 });
 *     const report = await randomizer.report({ age: 41, smokes: "no" }, "yes", { token });
 *
 * Randomness comes from crypto.getRandomValues alone. Web Crypto needs a page served by https or from localhost.
 *
 * @module sottovoce-local
 */

export const REPORT_BYTES = 22;

/** A protocol or an option that is not usable. */
export class ParameterError extends Error {
  name = "ParameterError";
}

/** A record or a label that the protocol cannot encode. */
export class DataError extends Error {
  name = "DataError";
}

// --- checks -----------------------------------------------------------------------------------------------------------

/** What was given, as it appears in an error. */
function shown(value) {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "object" && value !== null) {
    try {
      return JSON.stringify(value);
    } catch {
      return Object.prototype.toString.call(value);
    }
  }
  return typeof value === "bigint" ? `${value}n` : String(value);
}

/** Every comparison is true for a good value, so NaN never passes. */
function number(name, value, { atLeast = -Number.MAX_VALUE, atMost = Number.MAX_VALUE, above, below, remedy = "" } = {}) {
  const good =
    typeof value === "number" && value >= atLeast && value <= atMost &&
    (above === undefined || value > above) && (below === undefined || value < below);
  if (good) return value;
  const limits = [];
  if (above !== undefined) limits.push(`> ${above}`);
  else if (atLeast !== -Number.MAX_VALUE) limits.push(`>= ${atLeast}`);
  if (below !== undefined) limits.push(`< ${below}`);
  else if (atMost !== Number.MAX_VALUE) limits.push(`<= ${atMost}`);
  const wanted = `a finite number${limits.length ? ` ${limits.join(" and ")}` : ""}`;
  throw new ParameterError(`${name} must be ${wanted}; got ${shown(value)}.${remedy && ` ${remedy}`}`);
}

function wholeNumber(name, value, atLeast, atMost, remedy = "") {
  if (Number.isInteger(value) && value >= atLeast && value <= atMost) return value;
  throw new ParameterError(
    `${name} must be a whole number >= ${atLeast} and <= ${atMost}; got ${shown(value)}.${remedy && ` ${remedy}`}`,
  );
}

function choice(name, value, allowed) {
  if (typeof value === "string" && allowed.includes(value)) return value;
  throw new ParameterError(`${name} must be one of ${allowed.map(shown).join(", ")}; got ${shown(value)}.`);
}

const LARGEST = 1e50; // of what has a unit, as in the other library; widths are at least its reciprocal

function bounds(name, value) {
  if (!Array.isArray(value) || value.length !== 2) {
    throw new ParameterError(`${name} must be a pair [low, high]; got ${shown(value)}.`);
  }
  const low = number(`${name}[0]`, value[0], { atLeast: -LARGEST, atMost: LARGEST });
  const high = number(`${name}[1]`, value[1], { atLeast: -LARGEST, atMost: LARGEST });
  if (!(low < high)) throw new ParameterError(`${name} must satisfy low < high; got [${low}, ${high}].`);
  number(`${name}[1] - ${name}[0]`, high - low, { atLeast: 1e-50, atMost: LARGEST });
  return [low, high];
}

const MOST_TEXT = 1000;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

function checkText(name, value) {
  const good = typeof value === "string" && value !== "" && [...value].length <= MOST_TEXT && !LONE_SURROGATE.test(value);
  if (!good) throw new ParameterError(`${name} must be a text of 1 to ${MOST_TEXT} characters; got ${shown(value)}.`);
  return value;
}

function checkKeys(what, object, wanted) {
  const found = Object.keys(object);
  const unknown = found.filter((key) => !wanted.includes(key)).sort();
  const absent = wanted.filter((key) => !found.includes(key)).sort();
  if (unknown.length || absent.length) {
    throw new ParameterError(`${what} has unknown fields ${shown(unknown)} and lacks ${shown(absent)}.`);
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// --- canonical text ---------------------------------------------------------------------------------------------------

/** A double as the canonical text writes it: shortest digits, an exponent below 1e-4 and from 1e16. */
function canonicalFloat(value) {
  const [digits, power] = value.toExponential().split("e");
  const exponent = Number(power);
  if (value !== 0 && (exponent < -4 || exponent >= 16)) {
    return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const plain = exponent < 0 ? value.toFixed(digits.replace(/[-.]/g, "").length - 1 - exponent) : String(value);
  return plain.includes(".") ? plain : `${plain}.0`;
}

function canonicalText(text) {
  return JSON.stringify(text).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Texts and flags, lists, objects with sorted keys; numbers are functions that write themselves. */
function canonical(value) {
  if (typeof value === "function") return value();
  if (typeof value === "string") return canonicalText(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isObject(value)) {
    return `{${Object.keys(value).sort().map((key) => `${canonicalText(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  return String(value);
}

const float = (value) => () => canonicalFloat(value);
const whole = (value) => () => String(value);

// --- features ---------------------------------------------------------------------------------------------------------

const isMissing = (value) => value === undefined || value === null || Number.isNaN(value);

/** Position of a value between its bounds, as a number in [-1, 1]. */
function scaled(value, low, high) {
  const inside = Math.min(Math.max(value, low), high);
  return (inside - low - (high - inside)) / (high - low);
}

/** A number between public bounds, scaled to [-1, 1]; beyond a bound it counts as the bound. */
class NumericFeature {
  constructor({ name, low, high, missing }) {
    this.type = "numeric";
    this.name = name;
    this.low = number(`low of feature ${shown(name)}`, low);
    this.high = number(`high of feature ${shown(name)}`, high);
    this.missing = missing;
    if (!(this.low < this.high && Number.isFinite(this.high - this.low) && Number.isFinite(this.high + this.low))) {
      throw new ParameterError(`feature ${shown(name)} must have bounds low < high; got ${low} and ${high}.`);
    }
    Object.freeze(this);
  }

  get columns() {
    return this.missing ? [this.name, `${this.name}=missing`] : [this.name];
  }

  /** Write the columns of one value, from place ``start`` of a row of zeros. */
  encode(value, row, start) {
    if (isMissing(value)) {
      if (!this.missing) {
        throw new DataError(
          `feature ${shown(this.name)} is missing. Give a number, or declare the feature with missing=True.`,
        );
      }
      row[start + 1] = 1;
    } else if (typeof value !== "number") {
      throw new DataError(`feature ${shown(this.name)} must be a number; got ${shown(value)}.`);
    } else {
      row[start] = scaled(value, this.low, this.high);
    }
  }

  document() {
    return { type: this.type, name: this.name, low: float(this.low), high: float(this.high), missing: this.missing };
  }
}

/** One of a public list of categories: one column each, of which one is 1; a value not in the list counts as none. */
class CategoricalFeature {
  constructor({ name, categories, missing }) {
    this.type = "categorical";
    this.name = name;
    this.missing = missing;
    if (!Array.isArray(categories)) {
      throw new ParameterError(`categories of feature ${shown(name)} must be a list of texts; got ${shown(categories)}.`);
    }
    for (const category of categories) checkText(`category of feature ${shown(name)}`, category);
    if (categories.length === 0 || new Set(categories).size < categories.length) {
      throw new ParameterError(`categories of feature ${shown(name)} must be one or more different texts.`);
    }
    this.categories = Object.freeze([...categories]);
    Object.freeze(this);
  }

  get columns() {
    const names = this.categories.map((category) => `${this.name}=${category}`);
    return this.missing ? [...names, `${this.name}=missing`] : names;
  }

  encode(value, row, start) {
    if (isMissing(value) || value === "") {
      if (!this.missing) {
        throw new DataError(
          `feature ${shown(this.name)} is missing. Give a category, or declare it with missing=True.`,
        );
      }
      row[start + this.categories.length] = 1;
    } else if (typeof value !== "string") {
      throw new DataError(`feature ${shown(this.name)} must be a text; got ${shown(value)}. Its categories are texts.`);
    } else {
      const place = this.categories.indexOf(value);
      if (place >= 0) row[start + place] = 1;
    }
  }

  document() {
    return { type: this.type, name: this.name, categories: this.categories, missing: this.missing };
  }
}

const FEATURES = new Map([
  ["numeric", [NumericFeature, ["type", "name", "low", "high", "missing"]]],
  ["categorical", [CategoricalFeature, ["type", "name", "categories", "missing"]]],
]);

function featureOf(entry) {
  if (!isObject(entry) || !FEATURES.has(entry.type)) {
    throw new ParameterError(`a feature must be an object of type "numeric" or "categorical"; got ${shown(entry)}.`);
  }
  const [Feature, keys] = FEATURES.get(entry.type);
  checkKeys(`a ${entry.type} feature`, entry, keys);
  checkText("feature name", entry.name);
  if (typeof entry.missing !== "boolean") {
    throw new ParameterError(`missing of feature ${shown(entry.name)} must be true or false; got ${shown(entry.missing)}.`);
  }
  return new Feature(entry);
}

// --- protocol ---------------------------------------------------------------------------------------------------------

const FORMAT = "sottovoce-local-protocol";
const VERSION = 1;
const LOSSES = { classification: ["logistic", "hinge", "squared"], regression: ["squared"] };
const KEYS = [
  "format", "version", "mechanism", "epsilon", "task", "loss", "scale", "completion", "intercept", "degree", "K", "m", "b",
];
const MOST_CANDIDATES = 65_536; // an index has 16 bits
const MOST_COLUMNS = 100_000;
const MOST_NUMBERS = 2 ** 28; // K d: some seconds of work
const MOST_BEND = 16;
const MOST_SCALED = 1e100; // its square, 100,000 times, is a double
const MOST_CHARACTERS = 20_000_000;

/**
 * Public parameters of a collection: who reads them knows what leaves a device and what it may reveal.
 *
 * All fields of the text are properties of the same name; `features` is null where rows are vectors of `n_features`
 * numbers. `id` is the first 8 bytes of the SHA-256 of the canonical text, `d` the length of the unit vector.
 */
export class Protocol {
  /**
   * Read a protocol from its canonical text, as the collector publishes it.
   *
   * @param {string} text
   * @returns {Promise<Protocol>}
   * @throws {ParameterError} for an unknown version or field, a value out of range, or a text that is not canonical.
   */
  static async fromText(text) {
    const protocol = new Protocol(text);
    protocol.id = (await sha256(new TextEncoder().encode(protocol.text))).slice(0, 8);
    return Object.freeze(protocol);
  }

  constructor(text) {
    if (typeof text !== "string" || text.length > MOST_CHARACTERS) {
      throw new ParameterError(`the protocol must be a text of at most ${MOST_CHARACTERS} characters.`);
    }
    const source = text.trim();
    const document = documentOf(source);
    this.mechanism = choice("mechanism", document.mechanism, ["cap"]);
    this.epsilon = number("epsilon", document.epsilon, { atLeast: 1e-3, atMost: 32, remedy: "It is the loss of a report." });
    this.task = choice("task", document.task, Object.keys(LOSSES));
    this.loss = choice("loss", document.loss, LOSSES[this.task]);
    this.classes = this.task === "classification" ? classesOf(document.classes) : null;
    this.label_bounds = this.task === "regression" ? bounds("label_bounds", document.label_bounds) : null;
    this.features = "features" in document ? featuresOf(document.features) : null;
    this.n_features = this.features?.length ?? wholeNumber("n_features", document.n_features, 1, MOST_COLUMNS);
    const names =
      this.features?.flatMap((feature) => feature.columns) ?? Array.from({ length: this.n_features }, (_, i) => `x${i}`);
    this.nColumns = names.length;
    if (this.nColumns > MOST_COLUMNS) {
      throw new ParameterError(`the features have ${this.nColumns} columns; at most ${MOST_COLUMNS} are possible.`);
    }
    this.completion = choice("completion", document.completion, ["slack", "normalise"]);
    this.scale = number("scale", document.scale, { atLeast: 1e-100, atMost: 1e100 });
    this.intercept = number("intercept", document.intercept, { atLeast: 0, below: 1 });
    if (this.intercept > 0 && this.intercept < 1e-3) {
      throw new ParameterError(`intercept must be 0 or at least 0.001; got ${this.intercept}.`);
    }
    if (this.completion === "normalise" && this.intercept === 0) {
      throw new ParameterError('completion "normalise" needs intercept > 0, or a row of zeros would have no direction.');
    }
    this.degree = wholeNumber("degree", document.degree, 0, 1);
    this.K = wholeNumber("K", document.K, 2, MOST_CANDIDATES);
    this.m = wholeNumber("m", document.m, 1, this.K - 1);
    this.b = number("b", document.b, { atLeast: 0, atMost: MOST_BEND });
    if (this.intercept > 0) names.push("(intercept)");
    if (this.completion === "slack") names.push("(slack)");
    this.columns = Object.freeze(names);
    this.d = names.length;
    if (this.K * this.d > MOST_NUMBERS) {
      throw new ParameterError(
        `K = ${this.K} candidates of d = ${this.d} numbers each are too much work: K d must be <= 2^28. Choose a smaller K.`,
      );
    }
    this.text = source;
    if (canonical(this.#document()) !== source) {
      throw new ParameterError(
        "the protocol's text is not canonical (sorted keys, no white space, ASCII, shortest floats), so its id would " +
          "be ambiguous. Pass on the text of the collector unchanged.",
      );
    }
  }

  /**
   * The unit vector of one record.
   *
   * @param {Object|Map|Array} record by feature name, or values in the order of the features
   * @returns {Float64Array} of length d
   */
  encode(record) {
    const row = new Float64Array(this.d);
    if (this.features === null) this.#numbers(record, row);
    else this.#values(record, row);
    return this.#complete(row);
  }

  /** -1 or +1 for a class. */
  signOfClass(label) {
    const place = this.classes.indexOf(label);
    if (place >= 0) return place === 0 ? -1 : 1;
    throw new DataError(`the label must be one of ${shown(this.classes)}; got ${shown(label)}.`);
  }

  /** The label of a regression on the scale [-1, 1]; beyond a bound it counts as the bound. */
  scaledLabel(label) {
    if (typeof label !== "number" || !Number.isFinite(label)) {
      throw new DataError(`the label must be a finite number; got ${shown(label)}.`);
    }
    return scaled(label, ...this.label_bounds);
  }

  #numbers(record, row) {
    const listed = Array.isArray(record) || (ArrayBuffer.isView(record) && !(record instanceof DataView));
    if (!listed || record.length !== this.n_features) {
      throw new DataError(`x must be ${this.n_features} numbers; got ${listed ? record.length : shown(record)}.`);
    }
    for (let i = 0; i < record.length; i += 1) {
      if (typeof record[i] !== "number" || !Number.isFinite(record[i])) {
        throw new DataError(`x[${i}] must be a finite number; got ${shown(record[i])}. Replace it before reporting.`);
      }
      row[i] = record[i];
    }
  }

  #values(record, row) {
    let start = 0;
    const values = this.#ordered(record);
    this.features.forEach((feature, i) => {
      feature.encode(values[i], row, start);
      start += feature.columns.length;
    });
  }

  #ordered(record) {
    if (Array.isArray(record) && record.length === this.features.length) return record;
    if (Array.isArray(record) || typeof record !== "object" || record === null) {
      throw new DataError(`the record must be an object by name, or a list of ${this.features.length} values.`);
    }
    const given = record instanceof Map ? record : new Map(Object.entries(record));
    const names = this.features.map((feature) => feature.name);
    const unknown = [...given.keys()].filter((name) => !names.includes(name)).map(String).sort();
    const absent = this.features.filter(({ name, missing }) => !missing && !given.has(name)).map(({ name }) => name);
    if (unknown.length || absent.length) {
      throw new DataError(`the record lacks the features ${shown(absent)} and has unknown ones ${shown(unknown)}.`);
    }
    return names.map((name) => given.get(name));
  }

  /** Scale, intercept and completion; the order of every operation is part of the protocol. */
  #complete(z) {
    const n = this.nColumns;
    const c = this.intercept;
    for (let i = 0; i < n; i += 1) z[i] = Math.min(Math.max(z[i] / this.scale, -MOST_SCALED), MOST_SCALED);
    if (this.completion === "normalise") {
      z[n] = c;
      const norm = Math.sqrt(sumOfSquares(z, n + 1));
      for (let i = 0; i <= n; i += 1) z[i] /= norm;
      return z;
    }
    const square = sumOfSquares(z, n);
    const norm = square > 1 ? Math.sqrt(square) : 1;
    const share = Math.sqrt(1 - c * c);
    for (let i = 0; i < n; i += 1) z[i] = share * (z[i] / norm);
    if (c > 0) z[n] = c;
    z[this.d - 1] = share * Math.sqrt(1 - Math.min(square, 1));
    return z;
  }

  #document() {
    const document = {
      format: FORMAT,
      version: whole(VERSION),
      mechanism: this.mechanism,
      epsilon: float(this.epsilon),
      task: this.task,
      loss: this.loss,
      scale: float(this.scale),
      completion: this.completion,
      intercept: float(this.intercept),
      degree: whole(this.degree),
      K: whole(this.K),
      m: whole(this.m),
      b: float(this.b),
    };
    if (this.features === null) document.n_features = whole(this.n_features);
    else document.features = this.features.map((feature) => feature.document());
    if (this.classes !== null) {
      document.classes = this.classes.map((label) =>
        typeof label === "string" ? label : Number.isInteger(label) ? whole(label) : float(label),
      );
    }
    if (this.label_bounds !== null) document.label_bounds = this.label_bounds.map(float);
    return document;
  }
}

function documentOf(text) {
  let document;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw new ParameterError(`the protocol's text is not JSON: ${error.message}.`);
  }
  if (!isObject(document) || document.format !== FORMAT) {
    throw new ParameterError(`the text is no protocol: it has no entry "format": "${FORMAT}".`);
  }
  if (document.version !== VERSION) {
    throw new ParameterError(
      `the protocol has version ${shown(document.version)}, this program reads version ${VERSION}. Update the older one.`,
    );
  }
  const labels = document.task === "regression" ? "label_bounds" : "classes";
  checkKeys("the protocol", document, [...KEYS, labels, "features" in document ? "features" : "n_features"]);
  return document;
}

function classesOf(value) {
  const labels = Array.isArray(value) ? [...value] : [];
  for (const label of labels) {
    const good = typeof label === "string" ? label && !LONE_SURROGATE.test(label) : Math.abs(label) <= 2 ** 53;
    if (!good || !["string", "number"].includes(typeof label)) {
      throw new ParameterError(`a class must be a text or a number; got ${shown(label)}.`);
    }
  }
  if (labels.length !== 2 || labels[0] === labels[1]) {
    throw new ParameterError(`classes must be two different labels; got ${shown(value)}.`);
  }
  return Object.freeze(labels);
}

function featuresOf(value) {
  if (!Array.isArray(value) || value.length === 0) {
    throw new ParameterError(`features of the protocol must be a list of one or more; got ${shown(value)}.`);
  }
  const features = value.map(featureOf);
  const names = features.map((feature) => feature.name);
  if (new Set(names).size < names.length) {
    throw new ParameterError(`names of features must differ; got ${shown(names)}.`);
  }
  return Object.freeze(features);
}

function sumOfSquares(x, count) {
  let total = 0;
  for (let i = 0; i < count; i += 1) total += x[i] * x[i];
  return total;
}

// --- candidates -------------------------------------------------------------------------------------------------------

// AS 241 (PPND16): coefficients of ascending powers, numerator and denominator of each region
const CENTRE_TOP = [
  3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
  4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3,
];
const CENTRE_BOTTOM = [
  1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
  2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3,
];
const NEAR_TOP = [
  1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
  1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4,
];
const NEAR_BOTTOM = [
  1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
  1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9,
];
const FAR_TOP = [
  6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
  2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
];
const FAR_BOTTOM = [
  1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
  7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15,
];
// log m = 2 f (1 + w/3 + w^2/5 + ...), f = (m - 1)/(m + 1), w = f^2 <= 0.0295 for m in [1/sqrt(2), sqrt(2))
const LOG_SERIES = Array.from({ length: 12 }, (_, k) => 2 / (2 * k + 1));
const LN2 = 0.6931471805599453;
const SQRT_HALF = 0.7071067811865476;

/** Horner's rule: one product and one sum a coefficient, each rounded. */
function polynomial(coefficients, x) {
  let total = coefficients[coefficients.length - 1];
  for (let k = coefficients.length - 2; k >= 0; k -= 1) total = total * x + coefficients[k];
  return total;
}

const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);
DOUBLE[0] = 1;
const HIGH_WORD = WORDS[1] === 0x3ff00000 ? 1 : 0; // which half of a double holds its exponent

function logarithm(x) {
  DOUBLE[0] = x; // x = m 2^e, m in [1/2, 1): exact
  let exponent = (WORDS[HIGH_WORD] >>> 20) - 1022;
  WORDS[HIGH_WORD] = (WORDS[HIGH_WORD] & 0x000fffff) | 0x3fe00000;
  let m = DOUBLE[0];
  if (m < SQRT_HALF) {
    m += m;
    exponent -= 1;
  }
  const f = (m - 1) / (m + 1);
  return exponent * LN2 + f * polynomial(LOG_SERIES, f * f);
}

/** The inverse normal distribution function at odd multiples of 2^-53 in (0, 1), with the same bits everywhere. */
export function normalQuantile(p) {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) {
    const r = 0.180625 - q * q;
    return q * (polynomial(CENTRE_TOP, r) / polynomial(CENTRE_BOTTOM, r));
  }
  const r = Math.sqrt(-logarithm(Math.min(p, 1 - p)));
  const far = r > 5;
  const x = far ? r - 5 : r - 1.6;
  const value = far ? polynomial(FAR_TOP, x) / polynomial(FAR_BOTTOM, x) : polynomial(NEAR_TOP, x) / polynomial(NEAR_BOTTOM, x);
  return q < 0 ? -value : value;
}

/** Low and high half of a whole number of 64 bits. */
const halves = (value) => [Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n))];

const GOLDEN = 0x9e3779b97f4a7c15n;
const [GOLDEN_LOW, GOLDEN_HIGH] = halves(GOLDEN);
const [MIX_1_LOW, MIX_1_HIGH] = halves(0xbf58476d1ce4e5b9n);
const [MIX_2_LOW, MIX_2_HIGH] = halves(0x94d049bb133111ebn);

/** High half of the product of two halves. */
function highOfProduct(a, b) {
  const a0 = a & 0xffff;
  const a1 = a >>> 16;
  const b0 = b & 0xffff;
  const b1 = b >>> 16;
  const middle = Math.imul(a1, b0) + (Math.imul(a0, b0) >>> 16);
  return Math.imul(a1, b1) + (middle >>> 16) + ((Math.imul(a0, b1) + (middle & 0xffff)) >>> 16);
}

/** The numbers of a SplitMix64 stream as odd multiples of 2^-53 in (0, 1); 64-bit words as halves: BigInt is slow. */
class Uniforms {
  /**
   * @param {bigint} seed
   * @param {bigint} first how many numbers to pass over
   */
  constructor(seed, first) {
    [this.low, this.high] = halves(BigInt.asUintN(64, seed + first * GOLDEN));
  }

  next() {
    let low = (this.low + GOLDEN_LOW) | 0;
    let high = (this.high + GOLDEN_HIGH + (low >>> 0 < GOLDEN_LOW >>> 0 ? 1 : 0)) | 0;
    this.low = low;
    this.high = high;
    low ^= (low >>> 30) | (high << 2);
    high ^= high >>> 30;
    high = (Math.imul(high, MIX_1_LOW) + Math.imul(low, MIX_1_HIGH) + highOfProduct(low, MIX_1_LOW)) | 0;
    low = Math.imul(low, MIX_1_LOW);
    low ^= (low >>> 27) | (high << 5);
    high ^= high >>> 27;
    high = (Math.imul(high, MIX_2_LOW) + Math.imul(low, MIX_2_HIGH) + highOfProduct(low, MIX_2_LOW)) | 0;
    low = Math.imul(low, MIX_2_LOW);
    low ^= (low >>> 31) | (high << 1);
    high ^= high >>> 31;
    const top = (high >>> 12) * 0x100000000 + (((high << 20) | (low >>> 12)) >>> 0);
    return (top + 0.5) * 2 ** -52;
  }
}

/**
 * Candidate ``index`` of a seed: d standard normal numbers.
 *
 * @param {bigint} seed
 * @param {number} index
 * @param {number} d
 * @returns {Float64Array}
 */
export function candidate(seed, index, d) {
  const uniforms = new Uniforms(seed, BigInt(index) * BigInt(d));
  return Float64Array.from({ length: d }, () => normalQuantile(uniforms.next()));
}

/** Products of the K candidates of a seed with a vector, summed from left to right. */
function products(seed, K, z) {
  const uniforms = new Uniforms(seed, 0n);
  const out = new Float64Array(K);
  for (let j = 0; j < K; j += 1) {
    let total = 0;
    for (let i = 0; i < z.length; i += 1) total += normalQuantile(uniforms.next()) * z[i];
    out[j] = total;
  }
  return out;
}

// --- report -----------------------------------------------------------------------------------------------------------

const COINS = 2n ** 64n;
const BITS = 400n; // behind the point of e^epsilon; epsilon <= 32 needs 47 before it
const MARGIN = 10n ** 40n; // 1 / MARGIN is far above what these bits lose, and as far below one coin

/** The number T of coins, out of 2^64, that choose the top group: floor(2^64 m e^eps / (m e^eps + K - m)), exactly. */
export function threshold(epsilon, K, m) {
  const power = exponential(epsilon) * BigInt(m);
  const total = power + (BigInt(K - m) << BITS);
  return (COINS * power * MARGIN - total) / (total * MARGIN);
}

/** e^x times 2^BITS, rounded down by less than one in 2^300, for a double x > 0. */
function exponential(x) {
  DOUBLE[0] = x;
  const exponent = ((WORDS[HIGH_WORD] >>> 20) & 0x7ff) - 1075;
  const digits = BigInt(x * 2 ** -exponent);
  const fixed = exponent < 0 ? (digits << BITS) >> BigInt(-exponent) : digits << (BITS + BigInt(exponent));
  let term = 1n << BITS;
  let total = 0n;
  for (let k = 1n; term > 0n; k += 1n) {
    total += term;
    term = ((term * fixed) >> BITS) / k;
  }
  return total;
}

/**
 * The seed that belongs to a token: nobody can look for a seed that suits a wish.
 *
 * @param {Uint8Array} id of the protocol
 * @param {Uint8Array|string} token its bytes, or a text that stands for its UTF-8 bytes
 * @returns {Promise<bigint>}
 */
export async function seedOf(id, token) {
  const bytes = tokenBytes(token);
  const domain = new TextEncoder().encode("sottovoce local seed 1\0");
  const message = new Uint8Array(domain.length + id.length + bytes.length);
  message.set(domain);
  message.set(id, domain.length);
  message.set(bytes, domain.length + id.length);
  return littleEndian((await sha256(message)).slice(0, 8));
}

function tokenBytes(token) {
  if (token instanceof Uint8Array) return token;
  if (typeof token === "string") return new TextEncoder().encode(token);
  throw new ParameterError(`token must be a Uint8Array or a text; got ${shown(token)}.`);
}

/** Makes reports for one protocol. */
export class Randomizer {
  /**
   * @param {Protocol} protocol
   * @param {Object} [options]
   * @param {number} [options.maxEpsilon] refuse a protocol that asks for more: a device should not let the collector
   *   choose the loss alone
   */
  constructor(protocol, { maxEpsilon } = {}) {
    if (!(protocol instanceof Protocol && protocol.id)) {
      throw new ParameterError("protocol must come from await Protocol.fromText(text).");
    }
    if (maxEpsilon !== undefined && !(protocol.epsilon <= number("maxEpsilon", maxEpsilon, { above: 0 }))) {
      throw new ParameterError(
        `the protocol asks for epsilon ${protocol.epsilon}, more than maxEpsilon ${maxEpsilon}: no report is made.`,
      );
    }
    this.protocol = protocol;
    this.threshold = threshold(protocol.epsilon, protocol.K, protocol.m);
    this._random = (size) => webCrypto().getRandomValues(new Uint8Array(size));
  }

  /**
   * The report of one person. Each call is a new release that costs epsilon, and a person must send one report only:
   * see `reportOnce`.
   *
   * @param {Object|Map|Array} record see `Protocol.encode`
   * @param {string|number} label a class of the protocol, or a number
   * @param {Object} [options]
   * @param {Uint8Array|string} [options.token] public; the seed is derived from it, as a collector that gives out tokens
   *   demands. Without it the seed is random
   * @returns {Promise<Uint8Array>} 22 bytes
   */
  async report(record, label, { token } = {}) {
    const given = token === undefined ? null : await seedOf(this.protocol.id, token);
    const z = this.protocol.encode(record);
    const sign = this.#sign(label);
    for (let i = 0; i < z.length; i += 1) z[i] *= sign;
    const seed = given ?? this.#whole(8);
    return pack(this.protocol.id, seed, this.#draw(this.top(seed, z)));
  }

  /**
   * Which indices are the m best for the vector z; equal scores rank by index.
   *
   * @param {bigint} seed
   * @param {Float64Array} z
   * @returns {Uint8Array} of length K: 1 for the m best, else 0
   */
  top(seed, z) {
    const { K, m, b } = this.protocol;
    const score = products(seed, K, z);
    for (let j = 0; j < K; j += 1) {
      if (b !== 0) score[j] += b * (score[j] * score[j] - 1) * SQRT_HALF;
      if (Number.isNaN(score[j])) score[j] = -Infinity; // an overflow in a row of huge numbers; any order is private
    }
    const ranked = Uint32Array.from({ length: K }, (_, j) => j).sort((i, j) => score[j] - score[i] || i - j);
    const best = new Uint8Array(K);
    for (let k = 0; k < m; k += 1) best[ranked[k]] = 1;
    return best;
  }

  /** The class as -1 or +1; a number is rounded to one of them at random, with the number as mean. */
  #sign(label) {
    if (this.protocol.task === "classification") return this.protocol.signOfClass(label);
    const chance = 0.5 * (1 + this.protocol.scaledLabel(label));
    return Number(this.#whole(8) >> 11n) * 2 ** -53 < chance ? 1 : -1;
  }

  /** Draw an index: the group by a coin of 64 bits, then one of the group. */
  #draw(top) {
    const wanted = this.#whole(8) < this.threshold ? 1 : 0;
    const group = [];
    top.forEach((flag, index) => {
      if (flag === wanted) group.push(index);
    });
    return group[this.#below(group.length)];
  }

  /** A whole number below ``count``, every one with the same probability. */
  #below(count) {
    const limit = 2 ** 32 - (2 ** 32 % count);
    for (;;) {
      const value = Number(this.#whole(4));
      if (value < limit) return value % count;
    }
  }

  #whole(size) {
    return littleEndian(this._random(size));
  }
}

/**
 * The one report of this device: made at the first call, kept, and the same 22 bytes at every later one, also if the
 * answers have changed since. The answers are not kept.
 *
 * @param {Randomizer} randomizer
 * @param {Object|Map|Array} record
 * @param {string|number} label
 * @param {Object} [options]
 * @param {Uint8Array|string} [options.token]
 * @param {{getItem: function, setItem: function}} [options.storage] localStorage, or anything like it, also with promises
 * @returns {Promise<Uint8Array>}
 */
export async function reportOnce(randomizer, record, label, { token, storage = globalThis.localStorage } = {}) {
  const key = storageKey(randomizer.protocol);
  const once = async () => {
    const kept = await keptReport(randomizer.protocol, { token, storage });
    if (kept !== null) return kept;
    const report = await randomizer.report(record, label, { token });
    await storage.setItem(key, toHex(report));
    const stored = await keptReport(randomizer.protocol, { token, storage });
    if (stored === null) throw new ParameterError("storage does not keep what it is given. No report may leave this device.");
    return stored;
  };
  return alone(key, once);
}

const last = new Map();

/** Run one action a key at a time, in this page and, where the browser has locks, in all tabs of this site. */
export async function alone(key, action) {
  const before = last.get(key) ?? Promise.resolve();
  const locks = globalThis.navigator?.locks;
  const now = before.then(() => (locks ? locks.request(key, action) : action()));
  last.set(key, now.catch(() => {}));
  return now;
}

/**
 * The report that `reportOnce` kept on this device, or null.
 *
 * @param {Protocol} protocol
 * @param {Object} [options]
 * @param {Uint8Array|string} [options.token] if given, the kept report must belong to it
 * @param {{getItem: function}} [options.storage]
 * @returns {Promise<Uint8Array|null>}
 */
export async function keptReport(protocol, { token, storage = globalThis.localStorage } = {}) {
  if (typeof storage?.getItem !== "function" || typeof storage.setItem !== "function") {
    throw new ParameterError("storage must have getItem and setItem, as localStorage has. Without it no report is kept.");
  }
  const text = await storage.getItem(storageKey(protocol));
  if (text === null || text === undefined) return null;
  const report = /^[0-9a-f]{44}$/.test(text) ? fromHex(text) : new Uint8Array(REPORT_BYTES);
  const { seed, index } = unpack(report);
  if (toHex(pack(protocol.id, seed, index)) !== text || index >= protocol.K) {
    throw new DataError(
      `storage holds no report of this protocol under ${storageKey(protocol)}. If one was sent before, another one would ` +
        "cost epsilon a second time. Restore it, or send none.",
    );
  }
  if (token !== undefined && seed !== (await seedOf(protocol.id, token))) {
    throw new ParameterError(
      "token is not the one that the kept report was made for. A person has one report a protocol: give the first token.",
    );
  }
  return report;
}

const storageKey = (protocol) => `sottovoce-report-${toHex(protocol.id)}`;

/** The bytes of a report: "LDP1", id, seed as u64 and index as u16, little endian. */
export function pack(id, seed, index) {
  const out = new Uint8Array(REPORT_BYTES);
  out.set([0x4c, 0x44, 0x50, 0x31]);
  out.set(id, 4);
  const view = new DataView(out.buffer);
  view.setBigUint64(12, seed, true);
  view.setUint16(20, index, true);
  return out;
}

/** Seed and index of a report. */
export function unpack(report) {
  const view = new DataView(report.buffer, report.byteOffset, REPORT_BYTES);
  return { seed: view.getBigUint64(12, true), index: view.getUint16(20, true) };
}

export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function littleEndian(bytes) {
  let out = 0n;
  for (let i = bytes.length - 1; i >= 0; i -= 1) out = (out << 8n) | BigInt(bytes[i]);
  return out;
}

async function sha256(bytes) {
  return new Uint8Array(await webCrypto().subtle.digest("SHA-256", bytes));
}

function webCrypto() {
  if (globalThis.crypto?.subtle) return globalThis.crypto;
  throw new ParameterError("Web Crypto is missing. Serve the page by https or from localhost.");
}
