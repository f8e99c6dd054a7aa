// Requests to the server. Paths are relative, so that the token of the page's URL is kept.

export class ServerError extends Error {
  constructor(error) {
    super(error.message);
    this.fields = error;
  }
}

function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return `api/${path}?${new URLSearchParams(given)}`;
}

async function ask(url, signal) {
  try {
    return await fetch(url, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError({ kind: "Disconnected", message: "The server has stopped. Start `fastmosaic view` again." });
  }
}

export async function get(path, parameters = {}, signal = undefined) {
  const response = await ask(address(path, parameters), signal);
  const answer = await response.json();
  if (answer.error && path !== "meta") throw new ServerError(answer.error);
  return answer;
}

// The lines of an answer that comes in portions.
export async function* lines(path, parameters, signal) {
  const response = await ask(address(path, parameters), signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) {
      const line = JSON.parse(part);
      if (line.error) throw new ServerError(line.error);
      yield line;
    }
  }
}
