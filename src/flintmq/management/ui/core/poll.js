// What the broker says, asked again as long as somebody looks.
import { get } from "./api.js";
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

/** `address` is asked every `seconds`, not while the tab is hidden, and never twice at once. null asks nothing. */
export function usePoll(address, seconds = 5, onData) {
  const [state, setState] = useState({ address, data: null, error: null });
  const told = useRef(onData);
  told.current = onData;
  const [turn, setTurn] = useState(0);
  const refresh = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (address === null) return undefined;
    const stop = new AbortController();
    let timer = 0;
    const ask = async () => {
      if (document.hidden) {
        timer = setTimeout(ask, 500);
        return;
      }
      try {
        const data = await get(address, { signal: stop.signal });
        tell(true);
        told.current?.(data);
        setState({ address, data, error: null });
      } catch (error) {
        if (error.name === "AbortError") return;
        tell(error.status !== 0);
        setState((before) => ({ address, data: before.address === address ? before.data : null, error }));
      }
      if (!stop.signal.aborted) timer = setTimeout(ask, seconds * 1000);
    };
    ask();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [address, seconds, turn]);
  const same = state.address === address;
  // A list that is sorted anew keeps its rows until the others are there.
  return { data: same ? state.data : null, stale: state.data, error: same ? state.error : null, refresh };
}
