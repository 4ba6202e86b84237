// SPDX-License-Identifier: Apache-2.0
// Asks before something that cannot be undone.

import { useAction } from '../api';
import { Dialog } from './dialog';
import { ProblemBox } from './problem';

interface ConfirmProps {
  title: string; // "Delete 3 traces?"
  text: string;
  verb: string; // "Delete"
  action: () => Promise<unknown>;
  onClose: (done: boolean) => void;
}

export function Confirm({ title, text, verb, action, onClose }: ConfirmProps) {
  const work = useAction(async () => {
    await action();
    onClose(true);
  });
  return (
    <Dialog label={title} onClose={() => onClose(false)}>
      <h2>{title}</h2>
      <p>{text}</p>
      <ProblemBox problem={work.problem} />
      <div class="buttons">
        <button type="button" class="danger" onClick={() => work.run()} disabled={work.busy}>
          {verb}
        </button>
        <button type="button" autofocus onClick={() => onClose(false)}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
