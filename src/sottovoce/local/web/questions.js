/** Questions of a form: each has an element to show, and reads its answer or says what is wrong with it. */

import { element } from "./element.js";

const MOST_RADIOS = 8;

let count = 0;

/** The question of a feature. */
export function featureQuestion(words, feature, wording = {}) {
  const { text, hint, missingText } = ownWording(words, wording);
  if (feature.type === "numeric") return new NumberQuestion(words, { text: text ?? feature.name, hint, missingText, ...feature });
  const options = choices(words, feature.categories, wording);
  if (wording.none !== null) options.push({ value: unlisted(feature.categories), text: words.own(wording.none) ?? words.text("none") });
  if (feature.missing) options.push({ value: null, text: missingText });
  return new ChoiceQuestion(words, { text: text ?? feature.name, hint, options });
}

/** The question of a number in a row of numbers. */
export function numberQuestion(words, place, wording = {}) {
  const { text, hint } = ownWording(words, wording);
  const name = words.text("number", { place: place + 1 });
  return new NumberQuestion(words, { text: text ?? name, hint, low: -Infinity, high: Infinity, missing: false });
}

/** The question of the label. */
export function labelQuestion(words, protocol, wording = {}) {
  const { text = words.text("outcome"), hint } = ownWording(words, wording);
  if (protocol.classes !== null) return new ChoiceQuestion(words, { text, hint, options: choices(words, protocol.classes, wording) });
  const [low, high] = protocol.label_bounds;
  return new NumberQuestion(words, { text, hint, low, high, missing: false });
}

function ownWording(words, { text, hint, missing_text: missingText }) {
  return { text: words.own(text), hint: words.own(hint), missingText: words.own(missingText) ?? words.text("not-said") };
}

function choices(words, values, wording) {
  return values.map((value) => ({ value, text: words.own(wording.choices?.[value]) ?? String(value) }));
}

/** A text that is none of the categories. */
function unlisted(categories) {
  let value = "none of these";
  while (categories.includes(value)) value += "!";
  return value;
}

class Question {
  constructor(words) {
    count += 1;
    this.words = words;
    this.wrong = null;
    this.id = `question-${count}`;
    this.error = element("p", { class: "error", id: `${this.id}-error`, hidden: true });
  }

  /** Say what is wrong, by the key of its words, or take it back. */
  complain(key) {
    this.wrong = key;
    this.error.textContent = key === null ? "" : this.words.text(key);
    this.error.hidden = key === null;
    for (const control of this.marked) {
      if (key === null) control.removeAttribute("aria-invalid");
      else control.setAttribute("aria-invalid", "true");
    }
  }

  /** Take over what was answered to the same question in another language. */
  takeOver(other) {
    this.inputs.forEach((input, place) => {
      const before = other.inputs[place];
      input.disabled = before.disabled;
      if (input.type === "radio" || input.type === "checkbox") input.checked = before.checked;
      else input.value = before.value;
    });
    this.complain(other.wrong);
  }
}

class NumberQuestion extends Question {
  constructor(words, { text, hint, low, high, missing, missingText }) {
    super(words);
    const range = Number.isFinite(low) ? words.text("range", { low, high }) : words.text("any-number");
    this.field = element("input", {
      type: "text", inputmode: "decimal", class: "number", id: this.id, required: true,
      "aria-describedby": `${this.id}-hint ${this.id}-error`,
    });
    this.inputs = this.marked = [this.field];
    this.element = element(
      "div",
      { class: "question" },
      element("label", { for: this.id, class: "text" }, text),
      element("p", { class: "hint", id: `${this.id}-hint` }, hint ?? range),
      this.field,
    );
    if (missing) {
      this.notSaid = element("input", { type: "checkbox" });
      this.inputs = [this.field, this.notSaid];
      this.notSaid.addEventListener("change", () => {
        this.field.disabled = this.notSaid.checked;
        if (this.notSaid.checked) this.field.value = "";
        this.complain(null);
      });
      this.element.append(element("label", { class: "option" }, this.notSaid, missingText));
    }
    this.element.append(this.error);
  }

  /** The answer, or undefined after a complaint. */
  read() {
    if (this.notSaid?.checked) return null;
    const written = this.field.value.trim();
    const value = Number(written.replace(",", "."));
    this.complain(this.fault(written, value));
    return this.wrong === null ? value : undefined;
  }

  fault(written, value) {
    if (written === "") return "missing-number";
    // in a language whose decimal sign is the comma, 1.500 may be meant as 1500; 1,500 in others
    const [, sign] = /^[-+]?[1-9]\d{0,2}([.,])\d{3}$/.exec(written) ?? [];
    if (sign !== undefined && sign !== this.words.decimalSign) return "unclear-number";
    return Number.isFinite(value) ? null : "not-a-number";
  }
}

class ChoiceQuestion extends Question {
  constructor(words, { text, hint, options }) {
    super(words);
    this.options = options;
    const described = hint ? `${this.id}-hint ${this.id}-error` : `${this.id}-error`;
    const hints = hint ? [element("p", { class: "hint", id: `${this.id}-hint` }, hint)] : [];
    if (options.length > MOST_RADIOS) {
      this.list = element("select", { id: this.id, required: true, "aria-describedby": described });
      this.list.append(element("option", { value: "" }, words.text("choose")));
      options.forEach((option, place) => this.list.append(element("option", { value: place }, option.text)));
      this.inputs = this.marked = [this.list];
      this.element = element("div", { class: "question" }, element("label", { for: this.id, class: "text" }, text), ...hints, this.list, this.error);
      return;
    }
    this.inputs = options.map((_, place) => element("input", { type: "radio", name: this.id, value: place, required: true }));
    this.marked = this.inputs;
    const labels = options.map((option, place) => element("label", { class: "option" }, this.inputs[place], option.text));
    this.element = element(
      "fieldset",
      { "aria-describedby": described },
      element("legend", {}, text),
      ...hints,
      element("div", {}, ...labels),
      this.error,
    );
  }

  read() {
    const place = this.list ? (this.list.value === "" ? -1 : Number(this.list.value)) : this.inputs.findIndex((one) => one.checked);
    this.complain(place < 0 ? "missing-choice" : null);
    return place < 0 ? undefined : this.options[place].value;
  }
}
