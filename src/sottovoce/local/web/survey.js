/**
 * The page of a survey: questions from the protocol, answers randomised here, one report of 22 bytes sent.
 *
 * Answers are never stored and never sent. What this browser keeps is the report and the token that goes with it, to
 * send the same bytes again. The survey's own texts come from survey.json beside this file, where the names in the
 * protocol are the default; all other words from languages/*.json.
 */

import { Protocol, Randomizer, keptReport, unpack } from "./sottovoce-local.js";
import { explanation } from "./explanation.js";
import { element } from "./element.js";
import { linked, reportOfBrowser, tokenKey, tokenOfVisit } from "./invitation.js";
import { featureQuestion, labelQuestion, numberQuestion } from "./questions.js";
import { Told, Words, languageToBeginWith } from "./words.js";

const REASONS = {
  "bad-token": "refused-bad-token",
  "unknown-token": "refused-unknown-token",
  "wrong-seed": "refused-wrong-seed",
  "token-used": "refused-token-used",
  foreign: "refused-foreign",
  busy: "refused-busy",
  "too-fast": "refused-busy",
  unavailable: "refused-unavailable",
};
const FINAL = "token-used"; // to send it again is of no use

const part = (id) => document.getElementById(id);

function show(id, shown = true) {
  part(id).hidden = !shown;
}

/** The storage of the browser; where it keeps nothing, what is stored lasts until the page is closed. */
class Storage {
  constructor() {
    this.items = new Map();
    this.isLasting = true;
    try {
      localStorage.setItem("sottovoce-probe", "");
      localStorage.removeItem("sottovoce-probe");
    } catch {
      this.isLasting = false;
    }
  }

  getItem(key) {
    return this.items.get(key) ?? (this.isLasting ? localStorage.getItem(key) : null);
  }

  setItem(key, value) {
    this.items.set(key, value); // also where the browser stops keeping things in the middle of a visit
    try {
      localStorage.setItem(key, value);
    } catch {
      this.isLasting = false;
    }
  }
}

async function loaded(url) {
  try {
    return await fetch(url, { credentials: "omit", cache: "no-cache" });
  } catch {
    throw new Told("not-loaded");
  }
}

/** The answer's content; `missing` where there is no such thing. */
async function content(url, read, missing) {
  const response = await loaded(url);
  if (response.status === 404 && missing !== undefined) return missing;
  if (!response.ok) throw new Told("not-loaded");
  return read(response);
}

const json = (response) => response.json();
const text = (response) => response.text();

/** What is shown, in the language that is chosen: every word of the page is set here, and can be set again. */
class Page {
  constructor(wording, words, offered) {
    this.wording = wording;
    this.words = words;
    this.offered = offered;
    this.survey = null; // once its protocol is loaded
    this.status = null;
    this.problem = [];
  }

  render() {
    const { words, wording } = this;
    document.documentElement.lang = words.language;
    part("title").textContent = document.title = words.own(wording.title) || words.text("survey");
    part("introduction").textContent = words.own(wording.introduction) ?? "";
    show("introduction", Boolean(words.own(wording.introduction)));
    for (const one of document.querySelectorAll("[data-words]")) one.textContent = words.text(one.dataset.words);
    this.renderLanguages();
    this.renderMessages();
    part("promise-text").replaceChildren(...words.parts("promise", { bytes: element("strong", {}, words.text("bytes")) }));
    this.survey?.render(words);
  }

  renderLanguages() {
    part("languages").setAttribute("aria-label", this.words.text("languages"));
    show("languages", this.offered.length > 1);
    if (part("languages").children.length === 0) {
      for (const words of this.offered) {
        const button = element("button", { type: "button", lang: words.language }, words.text("name"));
        button.addEventListener("click", () => this.choose(words));
        part("languages").append(button);
      }
    }
    this.offered.forEach((words, place) => {
      part("languages").children[place].setAttribute("aria-pressed", words === this.words);
    });
  }

  /** Go on in another language; the address says so, and a page that is loaded again is in that language. */
  choose(words) {
    this.words = words;
    const address = linked();
    address.set("lang", words.language);
    history.replaceState(null, "", `#${address}`);
    this.render();
  }

  renderMessages() {
    part("status").textContent = this.status === null ? "" : this.words.text(this.status);
    part("problem").replaceChildren(...this.problem.flatMap(([key, values], place) => [
      ...(place > 0 ? [" "] : []),
      ...this.words.parts(key, { ...values, reason: element("span", { lang: "en" }, values?.reason ?? "") }),
    ]));
    show("problem", this.problem.length > 0);
  }

  /** Say how things are, by the key of the words, and what went wrong, by keys and values. */
  say(status, ...problem) {
    this.status = status;
    this.problem = problem;
    this.renderMessages();
  }
}

class Survey {
  constructor(page, protocol, invitations, storage) {
    this.page = page;
    this.wording = page.wording;
    this.protocol = protocol;
    this.invitations = invitations;
    this.storage = storage;
    this.randomizer = new Randomizer(protocol, { maxEpsilon: this.wording.max_epsilon });
    this.asked = null; // the questions, while there are any
    this.report = null; // the 22 bytes, once there are any
    this.button = "send";
  }

  /** Take up the report that this browser has made, or ask; a link that cannot work is told before any question. */
  async start() {
    part("send").addEventListener("click", () => this.send());
    part("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.answer();
    });
    const kept = await keptReport(this.protocol, { storage: this.storage });
    if (kept === null) {
      this.token = await tokenOfVisit(this.invitations);
      this.asked = this.questions(this.page.words);
    } else {
      this.token = this.storage.getItem(tokenKey(this.protocol));
      await keptReport(this.protocol, { storage: this.storage, token: this.token ?? "" });
      this.report = kept;
    }
    this.page.survey = this;
    this.page.render();
    show("loading", false);
    show("promise");
    if (kept === null) {
      show("form");
      if (!this.storage.isLasting) this.page.say(null, ["no-storage"]);
    } else {
      const other = (linked().get("token") ?? this.token) !== this.token;
      this.present("made-before", ...(other ? [["other-invitation"]] : []));
    }
  }

  questions(words) {
    const own = this.wording.questions ?? {};
    const features = this.protocol.features;
    const questions =
      features?.map((feature) => featureQuestion(words, feature, own[feature.name])) ??
      Array.from({ length: this.protocol.n_features }, (_, place) => numberQuestion(words, place, own[`x${place}`]));
    return [...questions, labelQuestion(words, this.protocol, this.wording.label)];
  }

  render(words) {
    const { protocol, randomizer, invitations } = this;
    part("explanation").replaceChildren(explanation(words, protocol, randomizer.threshold, invitations.required));
    if (this.asked !== null) {
      const before = this.asked;
      this.asked = this.questions(words);
      this.asked.forEach((question, place) => question.takeOver(before[place]));
      part("questions").replaceChildren(...this.asked.map((question) => question.element));
    }
    if (this.report !== null) this.renderReport(words);
  }

  renderReport(words) {
    const { index } = unpack(this.report);
    const rows = [
      [0, 4, words.text("bytes-format")],
      [4, 12, words.text("bytes-protocol")],
      [12, 20, words.text("bytes-seed")],
      [20, 22, words.text("bytes-index", { index, last: this.protocol.K - 1 })],
    ];
    const cells = rows.map(([from, to, meaning]) => {
      const hex = Array.from(this.report.slice(from, to), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
      return element("tr", {}, element("td", {}, element("code", {}, hex)), element("td", {}, meaning));
    });
    part("bytes").replaceChildren(...cells);
    const token = element("code", { id: "token" }, this.token);
    const invited = this.invitations.required ? [" ", words.text("code-invited")] : [];
    part("code").replaceChildren(...words.parts("code", { token }), ...invited, " ", words.text("code-fixed"));
    part("send").textContent = words.text(this.button);
  }

  async answer() {
    const answers = this.asked.map((question) => question.read());
    const wrong = answers.indexOf(undefined);
    if (wrong >= 0) {
      this.asked[wrong].inputs[0].focus();
      return;
    }
    const label = answers.pop();
    try {
      const { token, storage } = this;
      Object.assign(this, await reportOfBrowser(this.randomizer, answers, label, { token, storage }));
    } catch (error) {
      this.page.say(null, ["no-report", { reason: error.message }]);
      return;
    }
    part("form").remove();
    this.asked = null;
    this.render(this.page.words);
    this.present("not-sent");
  }

  present(status, ...problem) {
    show("report");
    this.page.say(status, ...problem);
    part("report-title").focus();
  }

  async send() {
    const button = part("send");
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true"); // and not disabled: the focus stays where it is
    this.page.say("sending");
    const { reason, problem } = await this.post();
    button.removeAttribute("aria-disabled");
    this.button = problem === null ? "send-again" : "send-retry";
    button.textContent = this.page.words.text(this.button);
    button.hidden = reason === FINAL;
    if (problem === null) this.page.say("sent");
    else if (reason === FINAL) this.page.say(null, problem);
    else this.page.say(null, problem, [this.storage.isLasting ? "kept" : "kept-page"]);
  }

  /** Send the report; what went wrong, in words, or null. */
  async post() {
    let response;
    try {
      response = await fetch(`${this.wording.collector ?? ""}reports`, {
        method: "POST",
        headers: { "Content-Type": "application/octet-stream", "Sottovoce-Token": this.token },
        body: this.report,
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
      });
    } catch {
      return { problem: ["unreachable"] };
    }
    if (response.ok) return { problem: null };
    const reason = await response.json().then((answer) => answer.reason, () => undefined);
    const told = REASONS[reason];
    return { reason, problem: told === undefined ? ["refused", { reason: reason ?? String(response.status) }] : [told] };
  }
}

async function main() {
  const wording = await content("survey.json", json, {});
  const names = wording.languages ?? [wording.language ?? "en"];
  const first = languageToBeginWith(names, linked().get("lang"));
  const found = await Promise.allSettled(names.map((name) => Words.load(name)));
  const offered = found.filter((one) => one.status === "fulfilled").map((one) => one.value);
  if (offered.length === 0) throw new Error("no catalogue of words");
  const page = new Page(wording, offered.find((words) => words.language === first) ?? offered[0], offered);
  page.render();
  show("loading");
  try {
    const collector = wording.collector ?? "";
    const protocol = await Protocol.fromText(await content(`${collector}protocol`, text));
    const invitations = await content(`${collector}invitations`, json, {});
    const required = Boolean(invitations.required || wording.invitation);
    await new Survey(page, protocol, { ...invitations, required }, new Storage()).start();
  } catch (error) {
    show("loading", false);
    page.say(null, error instanceof Told ? [error.key] : ["not-possible", { reason: error.message }]);
  }
}

main().catch(() => show("unloaded"));
