// What the broker says, asked again as long as somebody looks.
import { get, remove } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

let heard = true;
const listeners = new Set();

/** Tells whether the last answer came at all, for the sign in the bar. */
export function useHeard() {
  const [value, setValue] = useState(heard);
  useEffect(() => {
    listeners.add(setValue);
    return () => listeners.delete(setValue);
  }, []);
  return value;
}

function tell(value) {
  heard = value;
  listeners.forEach((listener) => listener(value));
}

const polls = new Set();

/** Deletes the object at `address`, which the page shows, from there and from `alias`. The page stops asking for it, unless the deletion fails: the broker would answer with 404. */
export async function removeShown(address, { alias = address, ...options } = {}) {
  const shown = [...polls].filter((poll) => [address, alias].some((one) => poll.address.split("?")[0] === one || poll.address.startsWith(`${one}/`)));
  shown.forEach((poll) => poll.stop());
  try {
    await remove(address, options);
  } catch (error) {
    shown.filter((poll) => polls.has(poll)).forEach((poll) => poll.start());
    throw error;
  }
}

/** `address` is asked every `seconds`, not while the tab is hidden, and never twice at once. null asks nothing. */
export function usePoll(address, seconds = 5, onData) {
  const [state, setState] = useState({ address, data: null, error: null });
  const told = useRef(onData);
  told.current = onData;
  const [turn, setTurn] = useState(0);
  const refresh = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (address === null) return undefined;
    let stop = null;
    let timer = 0;
    const ask = async (aborted) => {
      if (document.hidden) {
        timer = setTimeout(ask, 500, aborted);
        return;
      }
      try {
        const data = await get(address, { signal: aborted });
        tell(true);
        told.current?.(data);
        setState({ address, data, error: null });
      } catch (error) {
        if (error.name === "AbortError") return;
        tell(error.status !== 0);
        setState((before) => ({ address, data: before.address === address ? before.data : null, error }));
      }
      if (!aborted.aborted) timer = setTimeout(ask, seconds * 1000, aborted);
    };
    const poll = {
      address,
      start() {
        stop = new AbortController();
        ask(stop.signal);
      },
      stop() {
        stop.abort();
        clearTimeout(timer);
      },
    };
    polls.add(poll);
    poll.start();
    return () => {
      polls.delete(poll);
      poll.stop();
    };
  }, [address, seconds, turn]);
  const same = state.address === address;
  // A list that is sorted anew keeps its rows until the others are there.
  return { data: same ? state.data : null, stale: state.data, error: same ? state.error : null, refresh };
}
