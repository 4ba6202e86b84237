// SPDX-License-Identifier: Apache-2.0
// esbuild puts imported style sheets into app.css.
declare module '*.css';
