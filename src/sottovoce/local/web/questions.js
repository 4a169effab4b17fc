/** Questions of a form: each has an element to show, and reads its answer or says what is wrong with it. */

import { element } from "./element.js";

const MOST_RADIOS = 8;
const NOT_SAID = "I would rather not say";
const NONE_OF_THESE = "None of these";

let count = 0;

/** The question of a feature. */
export function featureQuestion(feature, wording = {}) {
  if (feature.type === "numeric") return new NumberQuestion({ name: feature.name, ...feature, ...wording });
  const options = feature.categories.map((value) => ({ value, text: wording.choices?.[value] ?? value }));
  if (wording.none !== null) options.push({ value: unlisted(feature.categories), text: wording.none ?? NONE_OF_THESE });
  if (feature.missing) options.push({ value: null, text: wording.missing_text ?? NOT_SAID });
  return new ChoiceQuestion({ text: wording.text ?? feature.name, hint: wording.hint, options });
}

/** The question of a number in a row of numbers. */
export function numberQuestion(place, wording = {}) {
  return new NumberQuestion({ name: `Number ${place + 1}`, low: -Infinity, high: Infinity, missing: false, ...wording });
}

/** The question of the label. */
export function labelQuestion(protocol, wording = {}) {
  if (protocol.classes === null) {
    const [low, high] = protocol.label_bounds;
    return new NumberQuestion({ name: "Outcome", low, high, missing: false, ...wording });
  }
  const options = protocol.classes.map((value) => ({ value, text: wording.choices?.[value] ?? String(value) }));
  return new ChoiceQuestion({ text: wording.text ?? "Outcome", hint: wording.hint, options });
}

/** A text that is none of the categories. */
function unlisted(categories) {
  let value = "none of these";
  while (categories.includes(value)) value += "!";
  return value;
}

class Question {
  constructor() {
    count += 1;
    this.id = `question-${count}`;
    this.error = element("p", { class: "error", id: `${this.id}-error`, hidden: true });
  }

  /** Say what is wrong, or take it back. */
  complain(message) {
    this.error.textContent = message ?? "";
    this.error.hidden = !message;
    for (const control of this.controls) {
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    }
  }
}

class NumberQuestion extends Question {
  constructor({ name, text, hint, low, high, missing, missing_text: missingText }) {
    super();
    const range = Number.isFinite(low) ? `A number from ${low} to ${high}; beyond these it counts as the nearer one.` : "A number.";
    this.field = element("input", {
      type: "text", inputmode: "decimal", class: "number", id: this.id, required: true,
      "aria-describedby": `${this.id}-hint ${this.id}-error`,
    });
    this.controls = [this.field];
    this.element = element(
      "div",
      { class: "question" },
      element("label", { for: this.id, class: "text" }, text ?? name),
      element("p", { class: "hint", id: `${this.id}-hint` }, hint ?? range),
      this.field,
    );
    if (missing) {
      this.notSaid = element("input", { type: "checkbox" });
      this.notSaid.addEventListener("change", () => {
        this.field.disabled = this.notSaid.checked;
        if (this.notSaid.checked) this.field.value = "";
        this.complain(null);
      });
      this.element.append(element("label", { class: "option" }, this.notSaid, missingText ?? NOT_SAID));
    }
    this.element.append(this.error);
  }

  /** The answer, or undefined after a complaint. */
  read() {
    if (this.notSaid?.checked) return null;
    const text = this.field.value.trim().replace(",", ".");
    const value = Number(text);
    const good = text !== "" && Number.isFinite(value);
    this.complain(good ? null : text === "" ? "Please give a number." : "This is not a number. Please write it with digits.");
    return good ? value : undefined;
  }
}

class ChoiceQuestion extends Question {
  constructor({ text, hint, options }) {
    super();
    this.options = options;
    const described = hint ? `${this.id}-hint ${this.id}-error` : `${this.id}-error`;
    const hints = hint ? [element("p", { class: "hint", id: `${this.id}-hint` }, hint)] : [];
    if (options.length > MOST_RADIOS) {
      this.list = element("select", { id: this.id, required: true, "aria-describedby": described });
      this.list.append(element("option", { value: "" }, "Please choose"));
      options.forEach((option, place) => this.list.append(element("option", { value: place }, option.text)));
      this.controls = [this.list];
      this.element = element("div", { class: "question" }, element("label", { for: this.id, class: "text" }, text), ...hints, this.list, this.error);
      return;
    }
    this.controls = options.map((_, place) => element("input", { type: "radio", name: this.id, value: place, required: true }));
    const labels = options.map((option, place) => element("label", { class: "option" }, this.controls[place], option.text));
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
    const place = this.list ? (this.list.value === "" ? -1 : Number(this.list.value)) : this.controls.findIndex((one) => one.checked);
    this.complain(place < 0 ? "Please choose one." : null);
    return place < 0 ? undefined : this.options[place].value;
  }
}
