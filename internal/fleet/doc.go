// Package fleet is what the machines of a fleet share: how their messages look,
// what subjects and stores are called, who may use which, how a machine is
// invited, joins and connects. A fleet is one NATS account with JetStream. Three
// kinds of process use it: the hub (internal/fleet/hub) runs the server or looks
// after one, and lets machines in; a coordinator (internal/fleet/coordinator) owns
// a run and hands its tasks out; workers (internal/fleet/worker) do them.
package fleet
