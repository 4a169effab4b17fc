/** The words of the page in one language: languages/*.json, one file a language, all with the same keys. */

const MOST_DIGITS = 20;

/** Something that went wrong and that has words: a key of the catalogues. */
export class Told extends Error {
  constructor(key) {
    super(key);
    this.key = key;
  }
}

export class Words {
  constructor(language, entries) {
    this.language = language;
    this.entries = entries;
    this.plural = new Intl.PluralRules(language);
    const parts = new Intl.NumberFormat(language).formatToParts(1.5);
    this.decimalSign = parts.find((part) => part.type === "decimal").value;
  }

  static async load(language) {
    const answer = await fetch(`languages/${encodeURIComponent(language)}.json`, { credentials: "omit", cache: "no-cache" });
    if (!answer.ok) throw new Error(`languages/${language}.json: ${answer.status}`);
    return new Words(language, await answer.json());
  }

  /** The text of a key. Where it depends on a number, that is the value `count`. */
  text(key, values = {}) {
    return this.parts(key, values).join("");
  }

  /** The same in parts, so that a value may be an element. */
  parts(key, values = {}) {
    const entry = this.entries[key];
    const text = typeof entry === "string" ? entry : entry[this.plural.select(values.count)];
    return text.split(/\{(\w+)\}/).map((part, place) => (place % 2 === 0 ? part : this.shown(values[part])));
  }

  shown(value) {
    return typeof value === "number" ? this.number(value) : value;
  }

  number(value, options = { maximumFractionDigits: MOST_DIGITS, useGrouping: false }) {
    return new Intl.NumberFormat(this.language, options).format(value);
  }

  /** A text of the survey itself: the same in all languages, or one for each. */
  own(text) {
    return text !== null && typeof text === "object" ? text[this.language] : text;
  }
}

/** The language to begin with: the one of the link, else the first that the browser asks for, else the survey's own. */
export function languageToBeginWith(offered, linked) {
  const asked = [linked, ...(navigator.languages ?? [])].filter(Boolean);
  for (const wish of asked) {
    const found = offered.find((one) => one === wish) ?? offered.find((one) => one === wish.split("-")[0]);
    if (found !== undefined) return found;
  }
  return offered[0];
}
