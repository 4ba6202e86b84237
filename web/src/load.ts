// SPDX-License-Identifier: Apache-2.0
// Data of a component that takes more than a GET: begins when the key changes, and is aborted when nobody waits any more,
// which ends the work in profd.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { asProblem, isAbort, type Loaded, type Problem } from './api';

// A key of null loads nothing. The data of the last key stays until the next ones are here.
export function useLoad<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const latest = useRef(load);
  latest.current = load;
  const [state, setState] = useState<{ key: string | null; data: T | null; problem: Problem | null; loading: boolean }>({
    key: null,
    data: null,
    problem: null,
    loading: key !== null,
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (key === null) {
      setState({ key, data: null, problem: null, loading: false });
      return undefined;
    }
    const control = new AbortController();
    setState((old) => ({ ...old, loading: true, problem: null }));
    latest.current(control.signal).then(
      (data) => {
        if (!control.signal.aborted) setState({ key, data, problem: null, loading: false });
      },
      (error: unknown) => {
        if (!isAbort(error) && !control.signal.aborted)
          setState((old) => ({ key, data: old.key === key ? old.data : null, problem: asProblem(error), loading: false }));
      },
    );
    return () => control.abort();
  }, [key, turn]);
  return { data: state.data, problem: state.problem, loading: state.loading, reload: useCallback(() => setTurn((old) => old + 1), []) };
}
