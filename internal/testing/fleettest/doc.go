// Package fleettest makes fleets for tests alone. Up starts a hub with its server
// on loopback and connects a coordinator and workers to it, in the test's process.
// NewNetwork, on Linux, makes the machines of a fleet on one computer: hosts with
// a network, a name, a home and programs of their own, which the test can slow
// down, cut off, freeze and kill.
package fleettest
