// Where numbers come from: the server, or, in a report, the file itself.

export class Refusal extends Error {}

const given = (query) =>
  Object.entries(query)
    .filter(([, v]) => v !== undefined && v !== null && v !== "")
    .map(([k, v]) => [k, String(v)])
    .sort();

async function ask(path) {
  let answer;
  try {
    answer = await fetch(path, { headers: { Accept: "application/json" } });
  } catch {
    throw new Refusal(
      "The dashboard does not answer. It may have been stopped: start it again with `coterie dashboard`.",
    );
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  throw new Refusal(found?.error ?? `The dashboard answered with status ${answer.status}.`);
}

const path = (run) => run.split("/").map(encodeURIComponent).join("/");

export const server = {
  listing: () => ask("/api/runs"),
  run: (id) => ({
    id,
    live: true,
    get: (view, query = {}) => ask(`/api/runs/${path(id)}/${view}?${new URLSearchParams(given(query))}`),
  }),
};

export const frozen = (id, answers) => ({
  id,
  live: false,
  get: async (view, query = {}) => {
    const found = answers[view + JSON.stringify(given(query))];
    if (found === undefined)
      throw new Refusal("This report does not hold these numbers; open the run with `coterie dashboard`.");
    return found;
  },
});

// Calls changed() whenever the server says so, and lost(true | false) when the line goes down or up.
export function watch(run, changed, lost) {
  const stream = new EventSource(`/api/events${run === null ? "" : `?run=${encodeURIComponent(run)}`}`);
  stream.onmessage = () => {
    lost(false);
    changed();
  };
  stream.onerror = () => lost(true);
  return () => stream.close();
}
