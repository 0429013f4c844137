// Package soak runs everything at once for a while: serve with clients of every
// API, and mcp, acp, abp, run and orchestrate beside it, with the real Copilot
// runtime and a slow model. Meanwhile a simulated user edits files, and random
// faults occur. The method check lists what must always hold. It measures no
// speed. `make soak` and .ci/run call it.
package soak
