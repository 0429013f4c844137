// Package fleettest makes the machines of a fleet on one computer, for tests
// alone: hosts with a network, a name, a home and programs of their own, which
// the test can slow down, cut off, freeze and kill. It runs on Linux.
package fleettest
