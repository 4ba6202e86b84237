// SPDX-License-Identifier: Apache-2.0
// The state of a session, target, trace, run or worker: a mark whose shape and colour say the same as its word.

const KINDS: Record<string, string> = {
  requested: 'active',
  starting: 'active',
  warming: 'active',
  recording: 'active',
  loading: 'active',
  stopping: 'active',
  draining: 'active',
  collecting: 'active',
  fetching: 'active',
  complete: 'ok',
  ok: 'ok',
  self: 'ok',
  partial: 'part',
  truncated: 'part',
  unprofilable: 'part',
  failed: 'bad',
  down: 'bad',
  unreachable: 'bad',
  corrupt: 'bad',
  unreadable: 'bad',
  missing: 'bad',
};

export function isActive(state: string): boolean {
  return KINDS[state] === 'active';
}

export function State({ state, text }: { state: string; text?: string }) {
  return (
    <span class={`state ${KINDS[state] ?? 'off'}`}>
      <i aria-hidden="true" />
      {text ?? state}
    </span>
  );
}
