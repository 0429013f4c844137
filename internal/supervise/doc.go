// Package supervise owns process trees. It starts a program under a small
// supervisor, the bridge's own binary called with Verb, so that nothing the
// program starts outlives the bridge, even after SIGKILL. Only Linux is tested;
// macOS and Windows are untried. It does not decide what may run. Package
// program and the agents start trees; app reaps those of dead bridges.
package supervise
