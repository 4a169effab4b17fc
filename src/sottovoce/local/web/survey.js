/**
 * The page of a survey: questions from the protocol, answers randomised here, one report of 22 bytes sent.
 *
 * Answers are never stored and never sent. What this browser keeps is the report and the token that goes with it, to
 * send the same bytes again. The wording comes from survey.json beside this file; without it the names in the protocol
 * are the wording.
 */

import { Protocol, Randomizer, keptReport, reportOnce, toHex, unpack } from "./sottovoce-local.js";
import { explanation } from "./explanation.js";
import { element } from "./element.js";
import { featureQuestion, labelQuestion, numberQuestion } from "./questions.js";

const TOKEN = /^[A-Za-z0-9_.~-]{16,128}$/; // what a collector takes for a token
const AGAIN = "Please send the report again in a moment.";
const REASONS = {
  "bad-token": "The collector did not accept the invitation code.",
  "unknown-token": "The collector does not know this invitation. Please open the survey by the link that you were sent.",
  "wrong-seed": "The report does not belong to this invitation.",
  "token-used": "This invitation was used before, from another device. Only the first report counts.",
  foreign: "The collector takes reports for another survey.",
  busy: `The collector is busy. ${AGAIN}`,
  "too-fast": `The collector is busy. ${AGAIN}`,
  unavailable: `The collector cannot store reports now. ${AGAIN}`,
};

const part = (id) => document.getElementById(id);

function show(id, shown = true) {
  part(id).hidden = !shown;
}

function say(text) {
  part("status").textContent = text;
}

function complain(text) {
  part("problem").textContent = text;
  show("problem", text !== "");
}

/** A storage for browsers that keep nothing: until the page is closed. */
function storageOfPage() {
  try {
    localStorage.setItem("sottovoce-probe", "");
    localStorage.removeItem("sottovoce-probe");
    return localStorage;
  } catch {
    const items = new Map();
    complain("This browser keeps no data of this page. Please answer only once: do not open the page again.");
    return { getItem: (key) => items.get(key) ?? null, setItem: (key, value) => void items.set(key, value) };
  }
}

async function fetched(url, what) {
  const response = await fetch(url, { credentials: "omit", cache: "no-cache" });
  if (!response.ok) throw new Error(`${what} cannot be loaded (${response.status}).`);
  return response.text();
}

async function wordingOfPage() {
  const response = await fetch("survey.json", { credentials: "omit", cache: "no-cache" });
  if (response.status === 404) return {};
  if (!response.ok) throw new Error(`The wording of the survey cannot be loaded (${response.status}).`);
  return response.json();
}

const tokenKey = (protocol) => `sottovoce-token-${toHex(protocol.id)}`;

/** The token of the invitation, or a new one where nobody is invited. */
function tokenOfVisit(wording) {
  const invited = new URLSearchParams(location.hash.slice(1)).get("token");
  if (invited === null && wording.invitation) {
    throw new Error("This survey is by invitation. Please open it by the link that you were sent.");
  }
  if (invited !== null && !TOKEN.test(invited)) {
    throw new Error("The link of the invitation is damaged. Please copy all of it.");
  }
  return invited ?? toHex(crypto.getRandomValues(new Uint8Array(16)));
}

class Survey {
  constructor(protocol, wording, storage) {
    this.protocol = protocol;
    this.wording = wording;
    this.storage = storage;
    this.randomizer = new Randomizer(protocol, { maxEpsilon: wording.max_epsilon });
  }

  async start() {
    part("title").textContent = document.title = this.wording.title ?? "Survey";
    part("introduction").textContent = this.wording.introduction ?? "";
    show("introduction", Boolean(this.wording.introduction));
    part("explanation").append(explanation(this.protocol, this.randomizer.threshold));
    show("loading", false);
    show("promise");
    part("send").addEventListener("click", () => this.send());
    const kept = await keptReport(this.protocol, { storage: this.storage });
    if (kept === null) {
      this.token = tokenOfVisit(this.wording);
      this.ask();
    } else {
      this.token = this.storage.getItem(tokenKey(this.protocol));
      await keptReport(this.protocol, { storage: this.storage, token: this.token ?? "" });
      this.present(kept, "This browser has made its report before. It can be sent again, and counts once.");
    }
  }

  ask() {
    const words = this.wording.questions ?? {};
    const features = this.protocol.features;
    this.questions =
      features?.map((feature) => featureQuestion(feature, words[feature.name])) ??
      Array.from({ length: this.protocol.n_features }, (_, place) => numberQuestion(place, words[`x${place}`]));
    this.outcome = labelQuestion(this.protocol, this.wording.label);
    part("questions").append(...[...this.questions, this.outcome].map((question) => question.element));
    part("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.answer();
    });
    show("form");
  }

  async answer() {
    const asked = [...this.questions, this.outcome];
    const answers = asked.map((question) => question.read());
    const wrong = answers.indexOf(undefined);
    if (wrong >= 0) {
      asked[wrong].controls[0].focus();
      return;
    }
    const label = answers.pop();
    try {
      this.storage.setItem(tokenKey(this.protocol), this.token);
      const options = { token: this.token, storage: this.storage };
      const report = await reportOnce(this.randomizer, answers, label, options);
      part("form").remove();
      this.questions = this.outcome = null;
      this.present(report, "Nothing has been sent yet.");
    } catch (error) {
      complain(`No report was made: ${error.message}`);
    }
  }

  present(report, status) {
    this.report = report;
    const { index } = unpack(report);
    const rows = [
      [0, 4, "The format and its version: LDP1"],
      [4, 12, "Which survey this is"],
      [12, 20, "Which list of patterns; it follows from the code below, not from your answers"],
      [20, 22, `Number of the pattern that was drawn: ${index} (of 0 to ${this.protocol.K - 1})`],
    ];
    const cells = rows.map(([from, to, meaning]) => {
      const hex = Array.from(report.slice(from, to), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
      return element("tr", {}, element("td", {}, element("code", {}, hex)), element("td", {}, meaning));
    });
    part("bytes").replaceChildren(...cells);
    part("token").textContent = this.token;
    show("invited", Boolean(this.wording.invitation));
    show("report");
    say(status);
    part("report-title").focus();
  }

  async send() {
    const button = part("send");
    button.disabled = true;
    complain("");
    say("Sending …");
    const problem = await this.post();
    button.disabled = false;
    button.textContent = "Send the same 22 bytes again";
    say(problem === null ? "Sent and stored. Thank you! You can close this page." : "");
    complain(problem ?? "");
  }

  /** Send the report; what went wrong, or null. */
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
      return `The collector cannot be reached. ${AGAIN}`;
    }
    if (response.ok) return null;
    const reason = await response.json().then((answer) => answer.reason, () => undefined);
    return REASONS[reason] ?? `The collector refused the report (${reason ?? response.status}).`;
  }
}

async function main() {
  const wording = await wordingOfPage();
  const protocol = await Protocol.fromText(await fetched(`${wording.collector ?? ""}protocol`, "The survey"));
  await new Survey(protocol, wording, storageOfPage()).start();
}

main().catch((error) => {
  show("loading", false);
  complain(error.message);
});
