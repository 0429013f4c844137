// Package bridge is the domain: what a session, a prompt, an event, a tool
// call, a decision, a model and an error are. It imports the standard library
// only; every other package points at it and none of them at each other
// through it. It does nothing by itself: agents produce these values, the
// engine passes them on, doors translate them.
package bridge
