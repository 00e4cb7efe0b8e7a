// Asking the server. What it refuses, and its absence, is shown above the page until an answer comes.

const problem = document.getElementById('problem');
let asking = 0; // questions that are not answered yet; who drives the page from outside may wait until there are none

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

// The answer as an object; undefined where there is none, and then the page says why.
export async function ask(path, body) {
  document.body.dataset.asking = ++asking;
  try {
    const answer = await asked(path, body);
    problem.hidden = true;
    return answer;
  } catch (error) {
    problem.textContent =
      error instanceof Refused ? sentence(error.message) : 'The server does not answer. Is caravan serve still running?';
    problem.hidden = false;
    return undefined;
  } finally {
    document.body.dataset.asking = --asking;
  }
}

async function asked(path, body) {
  const options = body && { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Refused(response.status, answer.error);
  return answer;
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Calls `work` with the latest argument, one at a time: what comes while it is busy replaces what is waiting.
export function latestOnly(work) {
  let waiting = null;
  let busy = false;
  return async (argument) => {
    waiting = { argument };
    if (busy) return;
    busy = true;
    while (waiting) {
      const next = waiting;
      waiting = null;
      await work(next.argument);
    }
    busy = false;
  };
}
