// SPDX-License-Identifier: Apache-2.0
// Where the page starts.

import { render } from 'preact';
import '../vendor/uplot/uPlot.css';
import './style.css';
import { App } from './app';
import { applyTheme } from './theme';

applyTheme();
render(<App />, document.getElementById('app')!);
