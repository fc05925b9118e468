// The one way to the broker's HTTP API.
import { current, end } from "./session.js";

// The `error` of a 401 whose login is not accepted. A user who lacks a right gets a 401, too, with another one.
const NOT_LOGGED_IN = "not_authorized";

export class ApiError extends Error {
  constructor(status, message, error = "") {
    super(message);
    this.status = status;
    this.notLoggedIn = status === 401 && error === NOT_LOGGED_IN;
  }
}

/** "/api/queues/%2F/orders" from path`queues/${vhost}/${name}`: every value is one segment, whatever is in it. */
export function path(texts, ...values) {
  return texts.reduce((whole, text, index) => whole + text + (index < values.length ? segment(values[index]) : ""), "/api/");
}

// A browser takes "." and "..", percent-encoded or not, for directories: it would ask for something else.
function segment(value) {
  if (value === "." || value === "..") throw new ApiError(0, `A browser cannot request an object with the name "${value}". Use the command line.`);
  return encodeURIComponent(value);
}

export function withQuery(address, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}

export async function call(method, address, { body, signal, extra = {}, authorization = current()?.authorization } = {}) {
  const headers = { Accept: "application/json", "X-Requested-With": "flintmq-ui", ...extra };
  if (authorization) headers.Authorization = authorization;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address, {
      method, headers, signal, credentials: "omit", cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The broker does not answer. Is it running, and can this computer reach it?");
  }
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok) return answer;
  const error = new ApiError(response.status, complaint(answer) || `The broker answered with status ${response.status}.`, answer?.error);
  if (error.notLoggedIn && current() && authorization === current().authorization) {
    end("The broker no longer accepts this login. Log in again.");
  }
  throw error;
}

function parsed(text) {
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function complaint(answer) {
  if (typeof answer === "string") return answer.slice(0, 400);
  const reason = answer?.reason ?? answer?.error ?? "";
  return typeof reason === "string" ? reason : JSON.stringify(reason);
}

export const get = (address, options) => call("GET", address, options);
export const put = (address, body = {}) => call("PUT", address, { body });
export const post = (address, body = {}) => call("POST", address, { body });
export const remove = (address, options) => call("DELETE", address, options);
