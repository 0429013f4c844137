// Package browser tries the dashboard of `serve` in a real browser: Chromium,
// without a window. The program, the runtime and the demo model are the real ones.
package browser
